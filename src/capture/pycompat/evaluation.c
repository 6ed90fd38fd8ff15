#define Py_BUILD_CORE 1
#include "capture/pycompat/evaluation.h"

#include <pthread.h>
#include <stdbool.h>

#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_ceval.h>
#include <internal/pycore_dict.h>
#endif

// ---- the garbage collector
//
// While `collecting` is set, CPython starts no collection. If it is set already, another thread is collecting, and
// CPython resets it when that thread is done: then only the count of new objects, which is far below zero, prevents
// another one.

static int bans;  // of all threads
static _Thread_local int bans_of_thread;
static bool is_flag_ours;
enum { kFar = 1 << 30 };

static void begin_ban(void) {
  struct _gc_runtime_state* state = &PyInterpreterState_Get()->gc;
  is_flag_ours = !state->collecting;
  if (is_flag_ours)
    state->collecting = 1;
  else
    state->generations[0].count -= kFar;
}

static void end_ban(void) {
  struct _gc_runtime_state* state = &PyInterpreterState_Get()->gc;
  if (is_flag_ours)
    state->collecting = 0;
  else if (state->generations[0].count < -kFar / 2)  // no collection has set it to zero
    state->generations[0].count += kFar;
}

// In the child of a fork: drops the bans of threads that the child does not have.
static void end_bans_of_others(void) {
  const bool was_banned = bans > 0;
  bans = bans_of_thread;
  if (was_banned && bans == 0) end_ban();
}

void stator_forbid_collection(void) {
  static bool is_registered;
  if (!is_registered) pthread_atfork(NULL, NULL, end_bans_of_others);
  is_registered = true;
  ++bans_of_thread;
  if (bans++ == 0) begin_ban();
}

void stator_allow_collection(void) {
  --bans_of_thread;
  if (--bans == 0) end_ban();
}

int stator_hide_main_thread(void) {
  if (_PyRuntime.main_thread != PyThread_get_thread_ident()) return 0;
  _PyRuntime.main_thread = 0;
  return 1;
}

void stator_show_main_thread(void) {
  _PyRuntime.main_thread = PyThread_get_thread_ident();
  // While hidden, the thread could not handle a pending signal and cleared the eval breaker: set it again.
#if PY_VERSION_HEX < 0x030D0000
  // Set it only if something is pending: otherwise nothing clears it, and a traced frame waits for that.
  struct _ceval_state* state = &PyInterpreterState_Get()->ceval;
  if (_Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) ||
      _Py_atomic_load_relaxed(&state->pending.calls_to_do))
    _Py_atomic_store_relaxed(&state->eval_breaker, 1);
#else
  _Py_set_eval_breaker_bit(PyThreadState_Get(), _PY_SIGNALS_PENDING_BIT);
#endif
}

PyObject* stator_callable_text(PyObject* callable) { return _PyObject_FunctionStr(callable); }

// The repeated key that a KeyError names (borrowed), or NULL if the error has another cause.
static PyObject* repeated_key(PyObject* value) {
  PyObject* args = value;
#if PY_VERSION_HEX >= 0x030C0000
  args = value ? ((PyBaseExceptionObject*)value)->args : NULL;
#endif
  return args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
}

int stator_merge_keywords(PyObject* callable, PyObject* keywords, PyObject* more) {
  if (_PyDict_MergeEx(keywords, more, 2) == 0) return 0;
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    PyObject* name = _PyObject_FunctionStr(callable);
    if (name)
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", name, Py_TYPE(more)->tp_name);
    Py_XDECREF(name);
  } else if (PyErr_ExceptionMatches(PyExc_KeyError)) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* key = repeated_key(value);
    PyObject* name = key ? _PyObject_FunctionStr(callable) : NULL;
    if (!name && !PyErr_Occurred()) {
      PyErr_Restore(type, value, trace);
      return -1;
    }
    if (name) PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", name, key);
    Py_XDECREF(name);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  return -1;
}
