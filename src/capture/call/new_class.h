#pragma once

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// A class as `type.__new__(metaclass, name, bases, names)` makes it, of which nobody is told: neither
/// `__set_name__` of what it holds nor `__init_subclass__` of its bases is called. Null with a Python error set.
/// Words of errors are the language's, unless its bases are to be told of it.
Ref new_class(PyTypeObject* metaclass, PyObject* name, PyObject* bases, PyObject* names);

/// Whether a base has an `__init_subclass__` other than that of `object`.
bool tells_bases(PyObject* bases);

}  // namespace stator::capture
