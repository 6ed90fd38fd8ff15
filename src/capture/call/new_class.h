#pragma once

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// The class that `type.__new__(metaclass, name, bases, names)` makes, without calling `__set_name__` of its attributes
/// or `__init_subclass__` of its bases: the interpreter has done that. Null with a Python error set. The error messages
/// are CPython's, unless `has_subclass_hook(bases)`.
Ref new_class(PyTypeObject* metaclass, PyObject* name, PyObject* bases, PyObject* names);

/// Whether a base has an `__init_subclass__` other than that of `object`.
bool has_subclass_hook(PyObject* bases);

}  // namespace stator::capture
