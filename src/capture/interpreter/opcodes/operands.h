#pragma once

#include "capture/interpreter/interpreter.h"

/// What instructions take.
namespace stator::capture {

/// By index in co_names.
inline PyObject* name_at(const Frame& f, int index) { return PyTuple_GET_ITEM(f.code->names, index); }
/// The topmost ones, lowest first.
std::vector<Value*> pop_many(Frame& f, int count);
/// What is unpacked; each instruction has words of its own about something that cannot be, which Python says.
Value* unpackable(Interpreter& in, Value* value);

}  // namespace stator::capture
