#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Whether a method is code of the program: neither C, nor of the standard library or torch.
bool is_of_program(PyObject* method);
/// The built-in base class whose __new__ makes the instances of a class.
PyTypeObject* native_base(PyTypeObject* type);
/// `prototype.name = to`, or `del prototype.name` if `to` is null.
void set_prototype_attr(Interpreter& in, Prototype& prototype, PyObject* name, Value* to);

}  // namespace stator::capture
