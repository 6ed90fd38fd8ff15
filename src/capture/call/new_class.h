#pragma once

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// A class as `type.__new__(metaclass, name, bases, names)` makes it, of which nobody is told: neither
/// `__set_name__` of what it holds nor `__init_subclass__` of its bases is called. Null with a Python error set.
Ref new_class(PyTypeObject* metaclass, PyObject* name, PyObject* bases, PyObject* names);

}  // namespace stator::capture
