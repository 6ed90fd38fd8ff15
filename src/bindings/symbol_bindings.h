#pragma once

#include <Python.h>

namespace stator::bindings {

/// Adds `_symbols` to the module: the classes of symbolic numbers and of their environment, as Python sees them.
/// Returns false with a Python exception set.
bool add_symbol_bindings(PyObject* module);

}  // namespace stator::bindings
