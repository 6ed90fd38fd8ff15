#include "capture/frame/watch.h"

#include "capture/frame/resume.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

/// The compiler that gets the frames of this thread; null: none does.
thread_local Compiler* watching = nullptr;

/// Whether the frame is the whole call of an ordinary function, which a capture can take over.
bool can_take_over(PyThreadState* tstate, StatorFrame* frame) {
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  const int flags = stator_frame_code(frame)->co_flags;
  return !(flags & kGenerators) && (flags & CO_NEWLOCALS) && stator_frame_is_fresh(frame) && !stator_is_tracing(tstate);
}

/// The hook: called in place of CPython's evaluator.
PyObject* on_frame(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  Compiler* compiler = watching;
  if (!compiler || throwflag || !can_take_over(tstate, frame) ||
      !compiler->is_candidate(stator_frame_function(frame), stator_frame_slots(frame)) ||
      !pycompat::decode(stator_frame_code(frame)))
    return stator_eval_next(tstate, frame, throwflag);
  return run_real_frame(*compiler, tstate, frame);
}

}  // namespace

Watch::Watch(Compiler& compiler) : outer_(std::exchange(watching, &compiler)), hook_(on_frame) {}
Watch::~Watch() { watching = outer_; }

NoWatch::NoWatch() : outer_(std::exchange(watching, nullptr)) {}
NoWatch::~NoWatch() { watching = outer_; }

PyObject* call_watched(Compiler& compiler, PyObject* function, PyObject* const* args, size_t nargsf, PyObject* names) {
  Watch watch(compiler);
  if (!watch.ok()) PyErr_Clear();
  return PyObject_Vectorcall(function, args, nargsf, names);
}

}  // namespace stator::capture
