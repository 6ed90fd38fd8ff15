#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// Each test source contributes a method table to the one test module.
PyMethodDef* decode_methods();
