#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// Whether a method found in a class is code of the program's, and neither C nor the standard library's or torch's.
bool is_of_program(PyObject* method);
/// type.__instancecheck__: no metaclass is asked.
bool is_plain_instance(Interpreter& in, Value* value, PyTypeObject* cls);
/// issubclass: metaclasses are asked. `of` is a class, what stands for classes, or a tuple of such.
bool is_subclass(Interpreter& in, PyTypeObject* cls, PyObject* of);

/// The object of a constant, or a tuple of those of a tuple's items; null where one is not known.
Ref known_classes(Interpreter& in, Value* value);

/// The built-in class whose __new__ makes the instances of a class in the end.
PyTypeObject* native_base(PyTypeObject* type);
/// type.__call__: __new__, then __init__.
Value* make_instance(Interpreter& in, PyTypeObject* type, CallArgs args);
/// A bare instance, as object.__new__ (or the built-in base) makes it.
Value* new_instance(Interpreter& in, PyTypeObject* type);

}  // namespace stator::capture
