#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Operands of instructions.
namespace stator::capture {

/// The name at an index of co_names.
inline PyObject* name_at(const Frame& f, int index) { return PyTuple_GET_ITEM(f.code->names, index); }
/// Pops the topmost values; the lowest comes first.
std::vector<Value*> pop_many(Frame& f, int count);
bool is_iterable(Interpreter& in, Value* value);
/// The value to unpack into names; raises the program's TypeError if it can't be iterated.
Value* unpackable(Interpreter& in, Value* value);

}  // namespace stator::capture
