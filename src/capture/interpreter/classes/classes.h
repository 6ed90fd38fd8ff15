#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// type.__instancecheck__: uses no metaclass.
bool is_plain_instance(Interpreter& in, Value* value, PyTypeObject* cls);
/// issubclass, with the checks of metaclasses. `of` is a class, a typing object that represents classes, or a tuple.
bool is_subclass(Interpreter& in, PyTypeObject* cls, PyObject* of);

/// The object of a constant, or a tuple of the objects of a tuple's items; null if one is not a constant.
Ref known_classes(Interpreter& in, Value* value);

/// type.__call__: __new__, then __init__.
Value* make_instance(Interpreter& in, PyTypeObject* type, CallArgs args, CallMode mode = {});
/// A bare instance, as object.__new__ (or the built-in base) makes it.
Value* new_instance(Interpreter& in, PyTypeObject* type);

}  // namespace stator::capture
