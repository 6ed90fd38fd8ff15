// Drives the frame functions from Python tests.
#define Py_BUILD_CORE 1
#include "pycompat_ext.h"

#include <stdbool.h>

#include "capture/pycompat/hook.h"
#if PY_VERSION_HEX < 0x030D0000
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <opcode.h>
#endif

static PyObject* null_marker;  // stands for NULL in the lists that Python sees

static PyObject* unsupported(PyObject* self, PyObject* none) {
  const char* reason = stator_frames_unsupported();
  return reason ? PyUnicode_FromString(reason) : Py_NewRef(Py_None);
}

// ---- stopping a function in the middle: the instruction at `stop` of a private copy of its code is LOAD_BUILD_CLASS,
// which asks the builtins, which are `trap`. The state is moved out, and the copy returns.

static struct {
  PyCodeObject* code;
  int stop, depth;
  PyObject* builtins;
  PyObject* state;  // (slots, stack, handled exception)
} armed;

#if PY_VERSION_HEX < 0x030D0000
static PyObject* move_to_list(PyObject** values, int count) {
  PyObject* list = PyList_New(count);
  for (int i = 0; list && i < count; ++i) {
    PyList_SET_ITEM(list, i, values[i] ? values[i] : Py_NewRef(null_marker));
    values[i] = NULL;
  }
  return list;
}

#if PY_VERSION_HEX < 0x030C0000
#define UNIT _Py_MAKECODEUNIT
#else
#define UNIT _Py_MAKE_CODEUNIT
#endif

static PyObject* trap(PyObject* self, PyObject* key) {
  StatorFrame* frame = PyThreadState_Get()->cframe->current_frame;
  if (!armed.code || frame->f_code != armed.code || (int)(frame->prev_instr - _PyCode_CODE(armed.code)) != armed.stop) {
    PyObject* value = PyDict_GetItemWithError(armed.builtins, key);
    if (!value && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
    return Py_XNewRef(value);
  }
  PyObject* slots = move_to_list(frame->localsplus, frame->f_code->co_nlocalsplus);
  PyObject* stack = move_to_list(frame->localsplus + frame->f_code->co_nlocalsplus, armed.depth);
  PyObject* handled = PyErr_GetHandledException();
  armed.state = Py_BuildValue("NNN", slots, stack, handled ? handled : Py_NewRef(Py_None));
  // What the copy does next: drop the stack below the value that this call gives, and return that.
  _Py_CODEUNIT* next = _PyCode_CODE(armed.code) + armed.stop + 1;
  if (armed.depth) *next++ = UNIT(SWAP, armed.depth + 1);
  for (int i = 0; i < armed.depth; ++i) {
    frame->localsplus[frame->f_code->co_nlocalsplus + i] = Py_NewRef(Py_None);
    *next++ = UNIT(POP_TOP, 0);
  }
  *next = UNIT(RETURN_VALUE, 0);
  armed.code = NULL;
  return Py_NewRef(null_marker);
}
#else
static PyObject* trap(PyObject* self, PyObject* key) { return PyErr_Format(PyExc_KeyError, "%R", key); }
#endif

static PyObject* arm(PyObject* self, PyObject* args) {
  PyObject *code, *builtins;
  if (!PyArg_ParseTuple(args, "O!iiO!", &PyCode_Type, &code, &armed.stop, &armed.depth, &PyDict_Type, &builtins))
    return NULL;
  armed.code = (PyCodeObject*)code;
  armed.builtins = builtins;
  Py_RETURN_NONE;
}

/// The state, or None if the stop was not reached.
static PyObject* disarm(PyObject* self, PyObject* none) {
  PyObject* state = armed.state;
  armed.code = NULL;
  armed.state = NULL;
  return state ? state : Py_NewRef(Py_None);
}

static PyObject* set_handled(PyObject* self, PyObject* exception) {
  PyErr_SetHandledException(exception == Py_None ? NULL : exception);
  Py_RETURN_NONE;
}

// ---- filling

typedef struct {
  StatorFrameState state;
  PyObject* thrown;
} Filling;

static PyObject** move_from_list(PyObject* list) {
  const Py_ssize_t count = PyList_GET_SIZE(list);
  PyObject** values = PyMem_Calloc((size_t)count + 1, sizeof(PyObject*));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* value = PyList_GET_ITEM(list, i);
    if (value != null_marker) values[i] = Py_NewRef(value);
  }
  PyList_SetSlice(list, 0, count, NULL);
  return values;
}

static void free_values(PyObject** values, Py_ssize_t count) {
  for (Py_ssize_t i = 0; values && i < count; ++i) Py_XDECREF(values[i]);
  PyMem_Free(values);
}

static PyObject* end_filled(PyThreadState* tstate, StatorFrame* frame, const Filling* filling) {
  if (!filling->thrown) return stator_frame_run(tstate, frame);
  PyErr_SetObject((PyObject*)Py_TYPE(filling->thrown), filling->thrown);
  return stator_frame_throw(tstate, frame, filling->state.offset);
}

static PyObject* fill_body(PyThreadState* tstate, StatorFrame* frame, void* data) {
  Filling* filling = data;
  if (stator_frame_fill(frame, &filling->state) < 0) return stator_frame_throw(tstate, frame, 0);
  return end_filled(tstate, frame, filling);
}

/// resume(function, slots, stack, offset, throw=None): the lists are emptied first.
static PyObject* resume(PyObject* self, PyObject* args) {
  PyObject *function, *slots, *stack, *thrown = Py_None;
  int offset;
  if (!PyArg_ParseTuple(args, "OO!O!i|O", &function, &PyList_Type, &slots, &PyList_Type, &stack, &offset, &thrown))
    return NULL;
  const Py_ssize_t nslots = PyList_GET_SIZE(slots), depth = PyList_GET_SIZE(stack);
  Filling filling = {{move_from_list(slots), move_from_list(stack), (int)depth, offset},
                     thrown == Py_None ? NULL : thrown};
  PyObject* result = stator_call_with_frame(function, fill_body, &filling);
  free_values(filling.state.slots, nslots);
  free_values(filling.state.stack, depth);
  return result;
}

static PyObject* fill_generator(PyObject* self, PyObject* args) {
  PyObject *generator, *slots, *stack;
  int offset;
  if (!PyArg_ParseTuple(args, "OO!O!i", &generator, &PyList_Type, &slots, &PyList_Type, &stack, &offset)) return NULL;
  const Py_ssize_t nslots = PyList_GET_SIZE(slots), depth = PyList_GET_SIZE(stack);
  StatorFrameState state = {move_from_list(slots), move_from_list(stack), (int)depth, offset};
  const int status = stator_generator_fill(generator, &state);
  free_values(state.slots, nslots);
  free_values(state.stack, depth);
  return status < 0 ? NULL : Py_NewRef(Py_None);
}

// ---- linking

typedef struct {
  PyObject *slots, *callable;
  int offset;
  StatorReturn site;
} Linking;

static PyObject* link_body(PyThreadState* tstate, StatorFrame* frame, void* data) {
  const Linking* linking = data;
  for (int i = 0; i < stator_frame_slot_count(frame); ++i) {
    PyObject* value = PyList_GET_ITEM(linking->slots, i);
    stator_frame_set_slot(frame, i, value == null_marker ? NULL : Py_NewRef(value));
  }
  StatorFrameLink link;
  stator_frame_link(&link, tstate, frame, linking->offset);
  PyObject* result = PyObject_CallNoArgs(linking->callable);
  stator_frame_unlink(&link);
  if (!result) return stator_frame_throw(tstate, frame, linking->offset);
  return stator_frame_return(tstate, frame, result, linking->site);
}

/// call_linked(function, slots, offset, callable, return_offset, is_const): callable() as if from that frame
static PyObject* call_linked(PyObject* self, PyObject* args) {
  PyObject* function;
  Linking linking;
  int is_const;
  if (!PyArg_ParseTuple(args, "OO!iOip", &function, &PyList_Type, &linking.slots, &linking.offset, &linking.callable,
                        &linking.site.offset, &is_const))
    return NULL;
  linking.site.is_const = is_const;
  return stator_call_with_frame(function, link_body, &linking);
}

// ---- the hook

static long hook_seen, hook_answered;
static struct {
  PyObject* code;  // frames of this code are answered with `result`
  PyObject* result;
  StatorReturn site;
} answer;

static struct {
  PyObject *code, *slots, *stack;  // fresh frames of this code go on at `offset` with these values
  int offset;
} refill;

static PyObject* evaluate_refilled(PyThreadState* tstate, StatorFrame* frame) {
  const Py_ssize_t nslots = PyList_GET_SIZE(refill.slots), depth = PyList_GET_SIZE(refill.stack);
  PyObject* slots = PyList_GetSlice(refill.slots, 0, nslots);
  PyObject* stack = PyList_GetSlice(refill.stack, 0, depth);
  Filling filling = {{move_from_list(slots), move_from_list(stack), (int)depth, refill.offset}, NULL};
  Py_DECREF(slots);
  Py_DECREF(stack);
  PyObject* result = fill_body(tstate, frame, &filling);
  free_values(filling.state.slots, nslots);
  free_values(filling.state.stack, depth);
  return result;
}

static PyObject* refill_with(PyObject* self, PyObject* args) {
  PyObject *code, *slots, *stack;
  if (!PyArg_ParseTuple(args, "OO!O!i", &code, &PyList_Type, &slots, &PyList_Type, &stack, &refill.offset)) return NULL;
  Py_XSETREF(refill.code, code == Py_None ? NULL : Py_NewRef(code));
  Py_XSETREF(refill.slots, Py_NewRef(slots));
  Py_XSETREF(refill.stack, Py_NewRef(stack));
  Py_RETURN_NONE;
}

static PyObject* hook(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  ++hook_seen;
  if (refill.code && (PyObject*)stator_frame_code(frame) == refill.code && !throwflag && stator_frame_is_fresh(frame)) {
    return evaluate_refilled(tstate, frame);
  }
  if (answer.code && (PyObject*)stator_frame_code(frame) == answer.code && !throwflag && stator_frame_is_fresh(frame)) {
    ++hook_answered;
    return stator_frame_return(tstate, frame, Py_NewRef(answer.result), answer.site);
  }
  return stator_eval_next(tstate, frame, throwflag);
}

static PyObject* hook_acquire(PyObject* self, PyObject* none) {
  return stator_hook_acquire(hook) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject* hook_release(PyObject* self, PyObject* none) {
  stator_hook_release();
  Py_RETURN_NONE;
}

/// As a compiled function does: holds the hook while it calls.
static PyObject* call_hooked(PyObject* self, PyObject* callable) {
  if (stator_hook_acquire(hook) < 0) return NULL;
  PyObject* result = PyObject_CallNoArgs(callable);
  stator_hook_release();
  return result;
}

/// answer_with(code or None, result, return_offset, is_const)
static PyObject* answer_with(PyObject* self, PyObject* args) {
  PyObject *code, *result;
  int is_const;
  if (!PyArg_ParseTuple(args, "OOip", &code, &result, &answer.site.offset, &is_const)) return NULL;
  answer.site.is_const = is_const;
  Py_XSETREF(answer.code, code == Py_None ? NULL : Py_NewRef(code));
  Py_XSETREF(answer.result, Py_NewRef(result));
  Py_RETURN_NONE;
}

static PyObject* seen(PyObject* self, PyObject* none) { return Py_BuildValue("ll", hook_seen, hook_answered); }
static PyObject* is_current(PyObject* self, PyObject* none) { return PyBool_FromLong(stator_hook_is_current()); }

// Another tool's hook: `stranger(True)` puts it on top of what it finds, and it calls that.
static _PyFrameEvalFunction under_stranger;
static long stranger_seen;
static PyObject* stranger_hook(PyThreadState* tstate, struct _PyInterpreterFrame* frame, int throwflag) {
  ++stranger_seen;
  return under_stranger(tstate, frame, throwflag);
}
static PyObject* stranger(PyObject* self, PyObject* on) {
  PyInterpreterState* interp = PyInterpreterState_Get();
  if (on == Py_True) {
    under_stranger = _PyInterpreterState_GetEvalFrameFunc(interp);
    _PyInterpreterState_SetEvalFrameFunc(interp, stranger_hook);
  } else if (on == Py_False) {
    _PyInterpreterState_SetEvalFrameFunc(interp, under_stranger);
  }
  return PyLong_FromLong(stranger_seen);
}

static PyMethodDef methods[] = {{"unsupported", unsupported, METH_NOARGS, NULL},
                                {"trap", trap, METH_O, NULL},
                                {"arm", arm, METH_VARARGS, NULL},
                                {"disarm", disarm, METH_NOARGS, NULL},
                                {"set_handled", set_handled, METH_O, NULL},
                                {"resume", resume, METH_VARARGS, NULL},
                                {"fill_generator", fill_generator, METH_VARARGS, NULL},
                                {"call_linked", call_linked, METH_VARARGS, NULL},
                                {"hook_acquire", hook_acquire, METH_NOARGS, NULL},
                                {"hook_release", hook_release, METH_NOARGS, NULL},
                                {"call_hooked", call_hooked, METH_O, NULL},
                                {"refill_with", refill_with, METH_VARARGS, NULL},
                                {"answer_with", answer_with, METH_VARARGS, NULL},
                                {"seen", seen, METH_NOARGS, NULL},
                                {"is_current", is_current, METH_NOARGS, NULL},
                                {"stranger", stranger, METH_O, NULL},
                                {NULL, NULL, 0, NULL}};

PyMethodDef* frame_methods(void) {
  if (!null_marker) null_marker = PyUnicode_FromString("<NULL>");
  return methods;
}
PyObject* frame_null_marker(void) { return null_marker; }
