#include "capture/pycompat/hook.h"

#include <pthread.h>

// All under the GIL.
static StatorFrameHook the_hook;
static _PyFrameEvalFunction below;  // what the hook was put on top of
static int users;
static int crowded;  // threads whose C stack must not grow: while there are any, the hook is not put on top

enum { kMaxAsides = 200 };

typedef struct {
  int depth;                // nested evaluations that came through the hook
  int users;                // of `users`, those of this thread
  int asides;               // nested evaluations for which the hook stands aside
  int users_at_aside;       // `users` when the innermost of them began: those after want the hook
  StatorFrame* delegating;  // the frame that was last given to `below`
} ThreadHook;
static _Thread_local ThreadHook thread_hook;

static PyInterpreterState* interpreter(void) { return PyInterpreterState_Get(); }
static PyObject* enter_hook(PyThreadState* tstate, StatorFrame* frame, int throwflag);

static _PyFrameEvalFunction current(void) { return _PyInterpreterState_GetEvalFrameFunc(interpreter()); }
bool stator_hook_is_current(void) { return current() == enter_hook; }

// A stranger who came on top of the hook stays there.
static void put_back(void) {
  if (current() == below && !crowded) _PyInterpreterState_SetEvalFrameFunc(interpreter(), enter_hook);
}

// Only if nobody came on top meanwhile: taking out a stranger's hook is worse than staying in the chain, where the hook
// without users passes everything on.
static void take_off(void) {
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

static PyObject* eval_aside(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  ThreadHook* thread = &thread_hook;
  const int outer = thread->users_at_aside;
  thread->users_at_aside = thread->users;
  if (++thread->asides == kMaxAsides) ++crowded;
  take_off();
  PyObject* result = stator_eval_next(tstate, frame, throwflag);
  if (thread->asides-- == kMaxAsides) --crowded;
  thread->users_at_aside = outer;
  if (thread->users > outer) put_back();
  return result;
}

static PyObject* enter_hook(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  ThreadHook* thread = &thread_hook;
  // A hook below that in turn calls the one it found installed, which was this one.
  if (thread->delegating == frame) return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
  if (thread->depth >= kStatorHookDepth) return eval_aside(tstate, frame, throwflag);
  ++thread->depth;
  PyObject* result = users > 0 ? the_hook(tstate, frame, throwflag) : stator_eval_next(tstate, frame, throwflag);
  --thread->depth;
  return result;
}

// The other threads, and what they held, are not in the child.
static void after_fork_in_child(void) {
  users = thread_hook.users;
  crowded = thread_hook.asides >= kMaxAsides;
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
  put_back();
  return 0;
}

void stator_hook_release(void) {
  const ThreadHook* thread = &thread_hook;
  --users;
  --thread_hook.users;
  if (users == 0 || (thread->asides && thread->users <= thread->users_at_aside)) take_off();
}

// ---- frames on request

typedef struct {
  PyObject* function;
  StatorFrameBody body;
  void* data;
  _PyFrameEvalFunction evaluator;  // to be put back
  int collector;                   // whether the collector is to be turned on again
} FrameRequest;
static _Thread_local FrameRequest* request;

static void end_window(const FrameRequest* wanted) {
  _PyInterpreterState_SetEvalFrameFunc(interpreter(), wanted->evaluator);
  if (wanted->collector) PyGC_Enable();
}

static PyObject* enter_requested(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  FrameRequest* wanted = request;
  if (!wanted || stator_frame_function(frame) != wanted->function) {
    return (wanted ? wanted->evaluator : _PyEval_EvalFrameDefault)(tstate, frame, throwflag);
  }
  request = NULL;
  end_window(wanted);
  return wanted->body(tstate, frame, wanted->data);
}

// Keyword-only parameters have to be named in a call; NULL without an error if there are none.
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
    // Nothing can come between here and enter_requested: binding runs no Python code once the collector rests.
    FrameRequest wanted = {function, body, data, _PyInterpreterState_GetEvalFrameFunc(interpreter()), PyGC_Disable()};
    FrameRequest* outer = request;
    request = &wanted;
    _PyInterpreterState_SetEvalFrameFunc(interpreter(), enter_requested);
    result = PyObject_Vectorcall(function, placeholders, code->co_argcount, names);
    if (request == &wanted) {
      end_window(&wanted);
      if (result) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_SystemError, "a frame was asked for and not delivered");
      }
    }
    request = outer;
  }
  Py_XDECREF(names);
  if (placeholders != small) PyMem_Free(placeholders);
  return result;
}
