#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Instances of `threading.local`: each thread has its own attributes, in a dict that a guard finds again.
namespace stator::capture {

/// `method` is the one by which the object's class reads, writes or deletes attributes. If it is that of
/// threading.local: makes the dict of the current thread the holder of the object's attributes, and gives true.
bool opens_thread_dict(Interpreter& in, ObjectValue* object, PyObject* method);

}  // namespace stator::capture
