#pragma once

#include "capture/pycompat/ref.h"

/// Questions about objects that loads, checks and texts of guards share.
namespace stator::capture {

/// Whether it is a collections.deque and no subclass, so that its C functions run no code of the program.
bool is_deque(PyObject* object);

/// The length of a dict, tuple, list, set or deque, as C code sees it: a `__len__` of a subclass is not called. -1 for
/// other objects.
Py_ssize_t plain_length(PyObject* object);

/// What a C function that reads the state of the process or thread returns now; null (no error set) if it raises.
/// `arguments`: tuple or null.
Ref answer_of(PyObject* function, PyObject* arguments);

}  // namespace stator::capture
