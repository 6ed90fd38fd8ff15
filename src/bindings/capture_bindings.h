#pragma once

#include "capture/pycompat/ref.h"

namespace stator::bindings {

/// Adds CompiledFunction, and functions for settings, counters, cache entries and stances. False with a Python error
/// set.
bool add_capture_bindings(PyObject* module);

}  // namespace stator::bindings
