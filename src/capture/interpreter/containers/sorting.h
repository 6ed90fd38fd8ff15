#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// list.sort by CPython's rules (stable, `key` called once an item); breaks when items cannot be compared.
void sort_list(Interpreter& in, SequenceValue* list, Value* key, Value* reverse);

}  // namespace stator::capture
