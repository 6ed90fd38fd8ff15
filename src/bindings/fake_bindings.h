#pragma once

#include <Python.h>

namespace stator::bindings {

/// Adds `_fake` to the module: fake tensors by hand, for tests and tools. Installs the fallback on the Fake key.
/// Returns false with a Python exception set.
bool add_fake_bindings(PyObject* module);

}  // namespace stator::bindings
