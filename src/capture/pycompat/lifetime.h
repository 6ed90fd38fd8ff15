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
/// finalizer, somebody who waits for its end, is a generator that has not ended, or an exception that holds frames
/// which have. Others than the program, such as caches of compilers, wait for the ends of objects too, so that counts
/// only where the reference is known to be the last one (`is_last`: of the object itself). -1 when memory runs out (no
/// error is set).
int stator_ends_aloud(PyObject* object, int is_last, StatorIsOurs is_ours, void* context);

/// The same of everything that the object holds, without itself.
int stator_parts_end_aloud(PyObject* object, StatorIsOurs is_ours, void* context);

/// The name of the callbacks by which Stator itself is told of an object's end: they do not count as waiting for it.
extern const char stator_quiet_callback[];

#ifdef __cplusplus
}
#endif
