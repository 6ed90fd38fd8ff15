#pragma once

#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/ref.h"

namespace stator::capture {

/// Element format, shape and strides of a NumPy array, as a bytes object. Null (no error set) for arrays that are not
/// writable or whose elements have no buffer format. Runs no code of the program.
Ref array_layout(PyObject* array);
/// Whether an array has this layout. Takes any object.
bool has_layout(PyObject* array, PyObject* layout);
/// The memory that the array's elements lie in; zeros where it is not writable.
MemoryRange array_memory(PyObject* array);

}  // namespace stator::capture
