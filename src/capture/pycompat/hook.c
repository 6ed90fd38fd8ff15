#define Py_BUILD_CORE 1
#include "capture/pycompat/hook.h"

#include <internal/pycore_interp.h>
#include <pthread.h>

// All variables are protected by the GIL.
static StatorFrameHook the_hook;
static _PyFrameEvalFunction below;  // the evaluator that was installed before the hook
static int users;                   // acquires without a release
static int deep_threads;            // threads with kMaxBypasses nested bypasses; while there are any, the hook is off

enum { kMaxBypasses = 200 };

typedef struct {
  int nested;               // nested evaluations that came through the hook
  int users;                // this thread's share of `users`
  int bypasses;             // nested evaluations for which the hook is removed
  int users_at_bypass;      // `users` when the innermost of them began; later users install the hook again
  StatorFrame* delegating;  // the frame that was last passed to `below`
} ThreadHook;
static _Thread_local ThreadHook thread_hook;

static PyInterpreterState* interpreter(void) { return PyInterpreterState_Get(); }
static PyObject* enter_hook(PyThreadState* tstate, StatorFrame* frame, int throwflag);

// Each call of a compiled function asks for it, so it is read from the interpreter directly. From 3.12 on, null stands
// for CPython's own evaluator.
static _PyFrameEvalFunction current(void) {
  const _PyFrameEvalFunction installed = PyThreadState_Get()->interp->eval_frame;
  return installed ? installed : _PyEval_EvalFrameDefault;
}
bool stator_hook_is_current(void) { return current() == enter_hook; }
bool stator_has_foreign_evaluator(void) {
  const _PyFrameEvalFunction installed = current();
  return installed != _PyEval_EvalFrameDefault && installed != enter_hook;
}

// Installs the hook, unless another tool has installed its own on top.
static void install(void) {
  if (current() == below && !deep_threads) _PyInterpreterState_SetEvalFrameFunc(interpreter(), enter_hook);
}

// Removes the hook, unless another tool has installed its own on top. Removing the other tool's hook would be worse
// than staying in the chain: a hook without users only calls `below`.
static void uninstall(void) {
  if (stator_hook_is_current()) _PyInterpreterState_SetEvalFrameFunc(interpreter(), below);
}

PyObject* stator_eval_next(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  if (!below || below == _PyEval_EvalFrameDefault) return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
  StatorFrame* outer = thread_hook.delegating;
  thread_hook.delegating = frame;
  PyObject* result = below(tstate, frame, throwflag);
  thread_hook.delegating = outer;
  return result;
}

// Evaluates a frame, and the frames it calls, without the hook.
static PyObject* eval_without_hook(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  ThreadHook* thread = &thread_hook;
  const int outer = thread->users_at_bypass;
  thread->users_at_bypass = thread->users;
  if (++thread->bypasses == kMaxBypasses) ++deep_threads;
  uninstall();
  PyObject* result = stator_eval_next(tstate, frame, throwflag);
  if (thread->bypasses-- == kMaxBypasses) --deep_threads;
  thread->users_at_bypass = outer;
  if (thread->users > outer) install();
  return result;
}

static PyObject* enter_hook(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  ThreadHook* thread = &thread_hook;
  // `below` is a hook that itself calls the evaluator it found installed, which was this one.
  if (thread->delegating == frame) return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
  if (thread->nested >= kStatorMaxNested) return eval_without_hook(tstate, frame, throwflag);
  ++thread->nested;
  PyObject* result = users > 0 ? the_hook(tstate, frame, throwflag) : stator_eval_next(tstate, frame, throwflag);
  --thread->nested;
  return result;
}

// The child process has only this thread.
static void after_fork_in_child(void) {
  users = thread_hook.users;
  deep_threads = thread_hook.bypasses >= kMaxBypasses;
}

int stator_hook_acquire(StatorFrameHook hook) {
  const char* reason = stator_frames_unsupported();
  if (reason) {
    PyErr_SetString(PyExc_NotImplementedError, reason);
    return -1;
  }
  if (interpreter() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_RuntimeError, "compiled functions run in the main interpreter only");
    return -1;
  }
  if (!the_hook) pthread_atfork(NULL, NULL, after_fork_in_child);
  the_hook = hook;
  if (users == 0 && !stator_hook_is_current()) below = current();
  ++users;
  ++thread_hook.users;
  install();
  return 0;
}

void stator_hook_release(void) {
  const ThreadHook* thread = &thread_hook;
  --users;
  --thread_hook.users;
  if (users == 0 || (thread->bypasses && thread->users <= thread->users_at_bypass)) uninstall();
}

// ---- frames on request

typedef struct {
  PyObject* function;
  StatorFrameBody body;
  void* data;
  _PyFrameEvalFunction evaluator;  // to be restored
  int collector;                   // whether the garbage collector must be enabled again
} FrameRequest;
static _Thread_local FrameRequest* request;

// Restores the evaluator and the garbage collector.
static void end_request(const FrameRequest* wanted) {
  _PyInterpreterState_SetEvalFrameFunc(interpreter(), wanted->evaluator);
  if (wanted->collector) PyGC_Enable();
}

static PyObject* enter_requested(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  FrameRequest* wanted = request;
  if (!wanted || stator_frame_function(frame) != wanted->function) {
    return (wanted ? wanted->evaluator : _PyEval_EvalFrameDefault)(tstate, frame, throwflag);
  }
  request = NULL;
  end_request(wanted);
  return wanted->body(tstate, frame, wanted->data);
}

// Names of the keyword-only parameters; NULL without an error if there are none.
static PyObject* keyword_only_names(const PyCodeObject* code) {
  if (!code->co_kwonlyargcount) return NULL;
  return PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount, code->co_argcount + code->co_kwonlyargcount);
}

PyObject* stator_call_with_frame(PyObject* function, StatorFrameBody body, void* data) {
  const char* reason = stator_frames_unsupported();
  if (reason) {
    PyErr_SetString(PyExc_NotImplementedError, reason);
    return NULL;
  }
  if (!PyFunction_Check(function)) {
    PyErr_Format(PyExc_TypeError, "a plain function is needed, not %.100s", Py_TYPE(function)->tp_name);
    return NULL;
  }
  const PyCodeObject* code = (const PyCodeObject*)PyFunction_GET_CODE(function);
  const int count = code->co_argcount + code->co_kwonlyargcount;
  PyObject* small[16];
  PyObject** placeholders = count <= 16 ? small : PyMem_Malloc(sizeof(PyObject*) * (size_t)count);
  if (!placeholders) return PyErr_NoMemory();
  for (int i = 0; i < count; ++i) placeholders[i] = Py_None;
  PyObject* names = keyword_only_names(code);
  PyObject* result = NULL;
  if (names || !PyErr_Occurred()) {
    // No Python code runs between here and enter_requested: binding runs none while the garbage collector is off.
    FrameRequest wanted = {function, body, data, _PyInterpreterState_GetEvalFrameFunc(interpreter()), PyGC_Disable()};
    FrameRequest* outer = request;
    request = &wanted;
    _PyInterpreterState_SetEvalFrameFunc(interpreter(), enter_requested);
    result = PyObject_Vectorcall(function, placeholders, code->co_argcount, names);
    if (request == &wanted) {
      end_request(&wanted);
      if (result) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_SystemError, "a requested frame was not made");
      }
    }
    request = outer;
  }
  Py_XDECREF(names);
  if (placeholders != small) PyMem_Free(placeholders);
  return result;
}
