#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Attribute writes and deletions.
namespace stator::capture {

/// object.__setattr__: calls no __setattr__ of the class.
void plain_set_attr(Interpreter& in, ObjectValue* object, PyObject* name, Value* to);
/// object.__delattr__.
void plain_del_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// The attribute that the program wrote to a class or one of its bases, if the lookup finds that one; null otherwise.
Value* written_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name);
/// The same for this class alone, without its bases.
Value* written_on_class(Interpreter& in, PyTypeObject* type, PyObject* name);

/// Breaks if this is the dict of a class that the program wrote to: the write is not in the dict yet.
void refuse_written_class(Interpreter& in, PyObject* names);

}  // namespace stator::capture
