#pragma once

#include "capture/pycompat/ref.h"

namespace stator::bindings {

/// Adds `Tracer` to the module: recording graphs by hand, for conversions and tests. False with an exception set.
bool add_tracer_bindings(PyObject* module);

}  // namespace stator::bindings
