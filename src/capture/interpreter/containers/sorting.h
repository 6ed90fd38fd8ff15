#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// list.sort by CPython's rules (stable; `key` is called once per item). Breaks if items can't be compared.
void sort_list(Interpreter& in, SequenceValue* list, Value* key, Value* reverse);

}  // namespace stator::capture
