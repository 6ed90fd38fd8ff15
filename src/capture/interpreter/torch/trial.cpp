#include "capture/interpreter/torch/trial.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/warning_rule.h"
#include "core/tracer/tracer.h"

namespace stator::capture {
namespace {

class Unrecorded {
 public:
  Unrecorded() : hooked_(tracer::set_hook(false)), no_fakes_(c10::DispatchKey::Fake) {}
  ~Unrecorded() { tracer::set_hook(hooked_); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  bool hooked_;
  c10::impl::ExcludeDispatchKeyGuard no_fakes_;
};

/// The exception that the call raises for zeros, or tensors filled with another number; null if it raises none, or
/// can't be tried.
Ref error_on_trial(std::span<PyObject* const> objects, const TorchCall& call, long filled = 0) {
  static PyObject* const trial_argument = known_object("stator.functions.trial_argument");
  Unrecorded scope;
  std::vector<Ref> owned;
  std::vector<PyObject*> zeros;
  for (PyObject* object : objects) {
    owned.push_back(Ref::steal(PyObject_CallFunction(trial_argument, "Ol", object, filled)));
    if (!owned.back()) {
      PyErr_Clear();
      return {};
    }
    zeros.push_back(owned.back().get());
  }
  WarningRule silent(WarningRule::Action::Ignore);
  Ref random = Ref::steal(PyObject_CallNoArgs(known_object("torch.get_rng_state")));
  Ref made = Ref::steal(call(zeros.data()));
  Ref raised;
  if (!made) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    raised = Ref::steal(value);
  }
  PyErr_Clear();
  Ref restored = random ? Ref::steal(PyObject_CallOneArg(known_object("torch.set_rng_state"), random.get())) : Ref();
  PyErr_Clear();
  return raised;
}

/// Its class and message.
std::string text_of_error(PyObject* error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  return take_error_text();
}

[[noreturn]] void raise_tried(Interpreter& in, PyObject* error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  raise_current(in);
}

}  // namespace

void raise_on_trial(Interpreter& in, std::span<PyObject* const> objects, const TorchCall& call) {
  if (in.frames.in_transform()) return;
  Ref error = error_on_trial(objects, call), other = error ? error_on_trial(objects, call, 1) : Ref();
  if (other && text_of_error(error.get()) == text_of_error(other.get())) raise_tried(in, error.get());
}

Value* tried_result(Interpreter& in, std::span<PyObject* const> objects, const RunningCall& what,
                    const TorchCall& call) {
  try {
    return in.torch_result([&] { return call(objects.data()); }, what);
  } catch (const Break& broke) {
    const bool is_error = broke.id == BreakId::torch_error;
    if ((!is_error && broke.id != BreakId::no_shape_function) || what.function == kOperator ||
        in.frames.in_transform() || in.torch.tracer.wants_number_as_tensor())
      throw;
    const std::string failure = in.torch.tracer.failure();
    const bool by_data = in.torch.tracer.failed_by_data();
    Ref error = error_on_trial(objects, call);
    if (!error) throw;
    const bool is_unknown = PyErr_GivenExceptionMatches(error.get(), PyExc_NotImplementedError);
    // A refusal of the tracer is not an error of the program, and may depend on data.
    if (is_error && !is_unknown && text_of_error(error.get()) == failure) raise_tried(in, error.get());
    // Shape functions have messages of their own. The operator's is known if its errors do not depend on data.
    if (!by_data) raise_on_trial(in, objects, call);
    if (is_unknown) throw;
    throw Break{BreakId::torch_error, broke.detail};
  }
}

}  // namespace stator::capture
