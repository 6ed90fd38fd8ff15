#pragma once

#include "capture/interpreter/interpreter.h"

/// Instances of `threading.local`: each thread has attributes of its own, in a dict that a guard finds again.
namespace stator::capture {

/// If `method`, which the object's class has for reading, writing or deleting attributes, is that of threading.local:
/// lets the dict of the thread that runs stand for the object's attributes, and gives true.
bool opens_thread_dict(Interpreter& in, ObjectValue* object, PyObject* method);

}  // namespace stator::capture
