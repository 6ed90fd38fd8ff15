#pragma once

/// State of CPython's C classes that has no Python API. C linkage; nothing here runs user code. GIL held. Unless stated
/// otherwise, references are borrowed, and no error is set on return.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- functools.lru_cache

/// Whether this CPython has the expected cache layout. If not, the functions below fail.
bool stator_caches_are_known(void);
/// The result that a cached function stores under a key, or NULL. The key is made by `stator_cache_key` or
/// `stator_weak_key`.
PyObject* stator_cached(PyObject* function, PyObject* key);
/// A copy of the key in which everything but literals, classes and the cache's own marker is replaced by a weak
/// reference. New reference, or NULL.
PyObject* stator_weak_key(PyObject* key, bool (*is_literal)(PyObject*));
/// The key of a call, a new reference; NULL on failure. `names`: tuple of the keyword arguments' names, which come
/// last, or NULL.
PyObject* stator_cache_key(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* names);
/// The maximum number of stored results; -1: no limit.
Py_ssize_t stator_cache_limit(PyObject* function);
/// Calls the cached function; on a miss it stores and returns `result` without running its body. New reference, or NULL
/// with an error set.
PyObject* stator_fill_cache(PyObject* function, PyObject* result, PyObject* args, PyObject* keywords);

// ---- threading.local

/// The attribute dict of an instance in this thread; NULL if there is none yet and creating it would run user code.
PyObject* stator_thread_dict(PyObject* local);

#ifdef __cplusplus
}
#endif
