#define Py_BUILD_CORE 1
#include "capture/pycompat/lifetime.h"

#include <internal/pycore_frame.h>

typedef struct {
  PyObject** waiting;  // borrowed: nothing runs while they are looked at
  size_t count, room;
  const StatorEnds* asks;
  int out_of_memory;
} Walk;

static int is_awaited(PyObject* object, const StatorEnds* asks) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return 0;
  const PyWeakReference* reference = *(PyWeakReference**)PyObject_GET_WEAKREFS_LISTPTR(object);
  for (; reference; reference = reference->wr_next)
    if (reference->wr_callback && !asks->is_quiet(reference->wr_callback, asks->context)) return 1;
  return 0;
}

static int ends_itself_aloud(PyObject* object, const StatorEnds* asks) {
  const PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object) || PyModule_Check(object)) return 0;  // they outlive what a program drops
  if (PyGen_CheckExact(object)) return ((PyGenObject*)object)->gi_frame_state < FRAME_COMPLETED;
  if (PyExceptionInstance_Check(object)) {
    // The first frame is the one that handles it: that lives on.
    PyObject* trace = ((PyBaseExceptionObject*)object)->traceback;
    if (trace && ((PyTracebackObject*)trace)->tb_next) return 1;
  }
  return type->tp_finalize != NULL || type->tp_del != NULL || is_awaited(object, asks);
}

static int has_parts(PyObject* object) {
  return PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse && !PyType_Check(object) && !PyModule_Check(object);
}

static int wait(Walk* walk, PyObject* object) {
  if (walk->count == walk->room) {
    size_t room = walk->room ? 2 * walk->room : 64;
    PyObject** grown = (PyObject**)PyMem_Realloc(walk->waiting, room * sizeof *grown);
    if (!grown) {
      walk->out_of_memory = 1;
      return 1;
    }
    walk->waiting = grown;
    walk->room = room;
  }
  walk->waiting[walk->count++] = object;
  return 0;
}

static int visit_part(PyObject* part, void* arg) {
  Walk* walk = (Walk*)arg;
  if (Py_REFCNT(part) != 1 && !walk->asks->is_ours(part, walk->asks->context)) return 0;
  if (ends_itself_aloud(part, walk->asks)) return 1;
  return has_parts(part) ? wait(walk, part) : 0;
}

static int parts_end_aloud(PyObject* object, const StatorEnds* asks) {
  if (!has_parts(object)) return 0;
  Walk walk = {NULL, 0, 0, asks, 0};
  int aloud = Py_TYPE(object)->tp_traverse(object, visit_part, &walk);
  while (!aloud && walk.count > 0) {
    PyObject* next = walk.waiting[--walk.count];
    aloud = Py_TYPE(next)->tp_traverse(next, visit_part, &walk);
  }
  PyMem_Free(walk.waiting);
  return walk.out_of_memory ? -1 : aloud;
}

int stator_ends_aloud(PyObject* object, const StatorEnds* asks) {
  return ends_itself_aloud(object, asks) ? 1 : parts_end_aloud(object, asks);
}
