#pragma once

/// Whether dropping the last reference to an object is observable. C linkage; nothing here runs user code. GIL held.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Questions that only the caller can answer.
typedef struct {
  /// Called for a part with more than one reference: whether all references but the container's are the caller's own,
  /// so that the part dies with its container. True at most once for an object.
  int (*is_ours)(PyObject* object, void* context);
  /// Whether the callback of a weak reference has no effect that the program can observe.
  int (*is_unobservable)(PyObject* callback, void* context);
  void* context;
} StatorLifetimeQueries;

/// Whether code of the program may run when the last reference to the object is dropped. This is so if the object, or a
/// part that dies with it, has a finalizer or a weak reference with an observable callback, is a generator that has not
/// finished, or is an exception whose traceback holds finished frames. -1 if out of memory (no error is set).
int stator_finalization_is_observable(PyObject* object, const StatorLifetimeQueries* queries);

#ifdef __cplusplus
}
#endif
