#pragma once

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// What a plan relies on in a NumPy array: element format, shape and strides, as bytes. Null (no error set) for arrays
/// that are not writable or have no plain elements. Runs no user code.
Ref array_layout(PyObject* array);
bool has_layout(PyObject* array, PyObject* layout);

}  // namespace stator::capture
