#pragma once

#include "capture/pycompat/ref.h"

namespace stator::bindings {

/// Adds the passes on graphs to the module; false with a Python exception set.
bool add_passes_bindings(PyObject* module);

}  // namespace stator::bindings
