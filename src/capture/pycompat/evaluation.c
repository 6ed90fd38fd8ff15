#define Py_BUILD_CORE 1
#include "capture/pycompat/evaluation.h"

#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_ceval.h>
#include <internal/pycore_dict.h>
#endif

int stator_set_collecting(int collecting) {
  struct _gc_runtime_state* state = &PyInterpreterState_Get()->gc;
  int before = state->collecting;
  state->collecting = collecting;
  return before;
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
