#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The iterator of an instance or tensor whose length list() and tuple() ask for first, which may call code of the
/// program. Null for values whose length they do not ask for.
Value* hinted_iterator(Interpreter& in, Value* iterable);
/// All items, as list() and tuple() read them: CPython asks for the length first.
std::vector<Value*> unpack_hinted(Interpreter& in, Value* iterable);
/// Breaks if so many items were taken that the iterator may be endless.
void refuse_endless(size_t items);

}  // namespace stator::capture
