#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

// Each test source contributes a method table to the one test module.
PyMethodDef* decode_methods(void);
PyMethodDef* facts_methods(void);
PyMethodDef* frame_methods(void);
PyObject* frame_null_marker(void);

#ifdef __cplusplus
}
#endif
