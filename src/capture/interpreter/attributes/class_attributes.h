#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Attributes of objects guarded by identity (Python modules, classes, C functions, enum members) and of super objects.
/// Null if there is no such attribute.
namespace stator::capture {

Value* constant_attr(Interpreter& in, ConstantValue* constant, PyObject* name);
/// An attribute of a class as `type.__getattribute__` finds it.
Value* plain_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name);
Value* super_attr(Interpreter& in, SuperValue* super, PyObject* name);

}  // namespace stator::capture
