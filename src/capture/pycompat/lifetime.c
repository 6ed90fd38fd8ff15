#define Py_BUILD_CORE 1
#include "capture/pycompat/lifetime.h"

#include <internal/pycore_frame.h>

typedef struct {
  PyObject** pending;  // parts still to be traversed; borrowed, because nothing runs meanwhile
  size_t count, capacity;
  const StatorLifetimeQueries* queries;
  int out_of_memory;
} Traversal;

static int has_observable_callback(PyObject* object, const StatorLifetimeQueries* queries) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return 0;
  const PyWeakReference* reference = *(PyWeakReference**)PyObject_GET_WEAKREFS_LISTPTR(object);
  for (; reference; reference = reference->wr_next)
    if (reference->wr_callback && !queries->is_unobservable(reference->wr_callback, queries->context)) return 1;
  return 0;
}

static int has_observable_end(PyObject* object, const StatorLifetimeQueries* queries) {
  const PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object) || PyModule_Check(object)) return 0;  // treated as immortal
  if (PyGen_CheckExact(object)) return ((PyGenObject*)object)->gi_frame_state < FRAME_COMPLETED;
  if (PyExceptionInstance_Check(object)) {
    // The first entry is the frame that handles the exception, which is still running.
    PyObject* trace = ((PyBaseExceptionObject*)object)->traceback;
    if (trace && ((PyTracebackObject*)trace)->tb_next) return 1;
  }
  return type->tp_finalize != NULL || type->tp_del != NULL || has_observable_callback(object, queries);
}

static int has_parts(PyObject* object) {
  return PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse && !PyType_Check(object) && !PyModule_Check(object);
}

static int push(Traversal* state, PyObject* object) {
  if (state->count == state->capacity) {
    size_t capacity = state->capacity ? 2 * state->capacity : 64;
    PyObject** grown = (PyObject**)PyMem_Realloc(state->pending, capacity * sizeof *grown);
    if (!grown) {
      state->out_of_memory = 1;
      return 1;
    }
    state->pending = grown;
    state->capacity = capacity;
  }
  state->pending[state->count++] = object;
  return 0;
}

static int visit_part(PyObject* part, void* arg) {
  Traversal* state = (Traversal*)arg;
  if (Py_REFCNT(part) != 1 && !state->queries->is_ours(part, state->queries->context)) return 0;
  if (has_observable_end(part, state->queries)) return 1;
  return has_parts(part) ? push(state, part) : 0;
}

static int parts_have_observable_end(PyObject* object, const StatorLifetimeQueries* queries) {
  if (!has_parts(object)) return 0;
  Traversal state = {NULL, 0, 0, queries, 0};
  int observable = Py_TYPE(object)->tp_traverse(object, visit_part, &state);
  while (!observable && state.count > 0) {
    PyObject* next = state.pending[--state.count];
    observable = Py_TYPE(next)->tp_traverse(next, visit_part, &state);
  }
  PyMem_Free(state.pending);
  return state.out_of_memory ? -1 : observable;
}

int stator_finalization_is_observable(PyObject* object, const StatorLifetimeQueries* queries) {
  return has_observable_end(object, queries) ? 1 : parts_have_observable_end(object, queries);
}
