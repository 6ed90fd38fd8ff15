#pragma once

#include <Python.h>

namespace stator::bindings {

/// Adds `native_backends` and `native_backend` to the module.
bool add_backend_bindings(PyObject* module);

}  // namespace stator::bindings
