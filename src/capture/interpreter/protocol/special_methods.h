#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The attribute of a class or one of its bases; borrowed, null if there is none. Records no guard.
PyObject* class_lookup(PyTypeObject* type, const char* name);
/// Whether a method returned NotImplemented.
bool is_not_implemented(Interpreter& in, Value* result);
/// A special method of the value's class, bound to the value. Raises the program's TypeError if there is none.
Value* type_method(Interpreter& in, Value* object, PyObject* name);

}  // namespace stator::capture
