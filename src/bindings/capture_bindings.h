#pragma once

#include "capture/pycompat/ref.h"

namespace stator::bindings {

/// CompiledFunction, settings, counters, cache entries, run mode. False with a Python error set.
bool add_capture_bindings(PyObject* module);

}  // namespace stator::bindings
