#include "capture/frame/watch.h"

#include <optional>

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

/// What the marks of `disable` and `skip`, torch's or Stator's, say about a function: all of its frames are captured,
/// its own is not, or none that it starts either.
enum class Marked : uint8_t { No, Frame, Everything };
Marked mark_of(PyObject* function) {
  static PyObject *const disabled = PyUnicode_InternFromString("_torchdynamo_disable"),
                         *const recursive = PyUnicode_InternFromString("_torchdynamo_disable_recursive");
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (!attributes || stator_dict_get_str(attributes, disabled) != Py_True) return Marked::No;
  return stator_dict_get_str(attributes, recursive) == Py_True ? Marked::Everything : Marked::Frame;
}

/// The hook: called in place of CPython's evaluator.
PyObject* on_frame(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  Compiler* compiler = watching;
  if (const Marked mark = compiler ? mark_of(stator_frame_function(frame)) : Marked::No; mark != Marked::No) {
    std::optional<NoWatch> no_watch;
    if (mark == Marked::Everything) no_watch.emplace();
    return stator_eval_next(tstate, frame, throwflag);
  }
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
