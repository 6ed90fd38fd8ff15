#pragma once

/// What happens when an object loses its last reference. C linkage; nothing here runs user code. GIL held.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What only the asking side knows.
typedef struct {
  /// Whether a reference that it took itself is all that keeps a part from ending with the whole; asked of the parts
  /// that have more than one. True at most once for an object.
  int (*is_ours)(PyObject* object, void* context);
  /// Whether the callback of a weak reference does nothing that the program can see.
  int (*is_quiet)(PyObject* callback, void* context);
  void* context;
} StatorEnds;

/// Whether code of the program may run when the last reference to the object goes: it, or what ends with it, has a
/// finalizer, a weak reference whose callback is not quiet, is a generator that has not ended, or an exception that
/// holds frames which have. -1 when memory runs out (no error is set).
int stator_ends_aloud(PyObject* object, const StatorEnds* asks);

#ifdef __cplusplus
}
#endif
