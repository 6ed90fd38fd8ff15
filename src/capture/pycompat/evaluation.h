#pragma once

/// Parts of CPython's evaluator that have no public function, or one whose home differs between versions. C linkage,
/// GIL held; errors and messages are CPython's.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Adds what `**more` gives to the keywords of a call of `callable`; a name that is there twice is an error.
int stator_merge_keywords(PyObject* callable, PyObject* keywords, PyObject* more);
/// A callable as messages about its arguments name it. New reference.
PyObject* stator_callable_text(PyObject* callable);

#ifdef __cplusplus
}
#endif
