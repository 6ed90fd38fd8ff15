#pragma once

#include "capture/pycompat/ref.h"

namespace stator::bindings {

/// Adds `FunctionTracer` to the module, on which `stator.make_fx` is built. False with an exception set.
bool add_function_tracer_bindings(PyObject* module);

}  // namespace stator::bindings
