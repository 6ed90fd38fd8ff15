#pragma once

#include <Python.h>

namespace stator::bindings {

/// Adds the functions for counters, phases, records and events. False with a Python error set.
bool add_observe_bindings(PyObject* module);

}  // namespace stator::bindings
