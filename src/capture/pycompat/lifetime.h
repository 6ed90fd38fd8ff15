#pragma once

/// What happens when an object loses its last reference. C linkage; nothing here runs user code. GIL held.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Whether a reference that the asking side took itself is all that keeps a part from ending with the whole; asked of
/// the parts that have more than one. True at most once for an object.
typedef int (*StatorIsOurs)(PyObject* object, void* context);

/// Whether code of the program may run when the last reference to the object goes: it, or what ends with it, has a
/// finalizer, is a generator that has not ended, or an exception that holds frames which have. Weak references with
/// callbacks do not count: other compilers keep them for every module. -1 when memory runs out (no error is set).
int stator_ends_aloud(PyObject* object, StatorIsOurs is_ours, void* context);

#ifdef __cplusplus
}
#endif
