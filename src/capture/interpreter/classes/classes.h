#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// type.__instancecheck__: no metaclass is asked.
bool is_plain_instance(Interpreter& in, Value* value, PyTypeObject* cls);
/// issubclass: metaclasses are asked. `of` is a class, what stands for classes, or a tuple of such.
bool is_subclass(Interpreter& in, PyTypeObject* cls, PyObject* of);

/// The object of a constant, or a tuple of those of a tuple's items; null where one is not known.
Ref known_classes(Interpreter& in, Value* value);

}  // namespace stator::capture
