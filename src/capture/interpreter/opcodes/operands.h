#pragma once

#include "capture/interpreter/interpreter.h"

/// What instructions take.
namespace stator::capture {

/// By index in co_names.
inline PyObject* name_at(const Frame& f, int index) { return PyTuple_GET_ITEM(f.code->names, index); }
/// The topmost ones, lowest first.
std::vector<Value*> pop_many(Frame& f, int count);
bool is_iterable(Interpreter& in, Value* value);
/// What is unpacked into names.
Value* unpackable(Interpreter& in, Value* value);

}  // namespace stator::capture
