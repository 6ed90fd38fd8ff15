#pragma once

#include "capture/interpreter/interpreter.h"

/// Attribute writes and deletions.
namespace stator::capture {

/// object.__setattr__: no __setattr__ of the class is asked.
void plain_set_attr(Interpreter& in, ObjectValue* object, PyObject* name, Value* to);
/// object.__delattr__.
void plain_del_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// What the program wrote to a class or one of its bases, where the lookup finds it; null if nothing.
Value* written_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name);
/// As above, for that very class alone.
Value* written_on_class(Interpreter& in, PyTypeObject* type, PyObject* name);

/// Breaks where these are the names of a class that was written to: they do not tell of it yet.
void refuse_written_class(Interpreter& in, PyObject* names);

}  // namespace stator::capture
