#pragma once

/// State that CPython's C classes keep out of sight. C linkage; nothing here runs user code. GIL held. References are
/// borrowed unless said otherwise, and no error is left set unless said.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- functools.lru_cache

/// Whether what is said of these caches below is true of this CPython: each function refuses otherwise.
bool stator_caches_are_known(void);
/// What a cached function keeps under a key, or NULL. The key is one that `stator_cache_key` made, or what
/// `stator_weak_key` made of it.
PyObject* stator_cached(PyObject* function, PyObject* key);
/// The key with weak references in place of the instances in it, of all that is neither literal nor a class nor the
/// cache's own. New reference, or NULL.
PyObject* stator_weak_key(PyObject* key, bool (*is_literal)(PyObject*));
/// The key of a call, a new reference. NULL where the arguments cannot be one. `names`: tuple of the last arguments'
/// names, or NULL.
PyObject* stator_cache_key(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* names);
/// How many results are kept at most; -1: all.
Py_ssize_t stator_cache_limit(PyObject* function);
/// Calls the function, where what it caches is known to give `result`: its body does not run. New reference, or NULL
/// with an error set.
PyObject* stator_fill_cache(PyObject* function, PyObject* result, PyObject* args, PyObject* keywords);

// ---- threading.local

/// The attributes that an instance has in this thread; NULL if none were made and making them would run user code.
PyObject* stator_thread_dict(PyObject* local);

#ifdef __cplusplus
}
#endif
