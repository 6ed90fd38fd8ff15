#include "capture/interpreter/torch/trial.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/state/known_types.h"
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

/// The exception that the call raises for zeros; null if it raises none, or can't be tried.
Ref error_on_zeros(std::span<PyObject* const> objects, const TorchCall& call) {
  static PyObject* const trial_argument = known_object("stator.functions.trial_argument");
  Unrecorded scope;
  std::vector<Ref> owned;
  std::vector<PyObject*> zeros;
  for (PyObject* object : objects) {
    owned.push_back(Ref::steal(PyObject_CallOneArg(trial_argument, object)));
    if (!owned.back()) {
      PyErr_Clear();
      return {};
    }
    zeros.push_back(owned.back().get());
  }
  Ref silent = Ref::steal(PyObject_CallNoArgs(known_object("stator.functions.silent")));
  if (!silent || !Ref::steal(PyObject_CallMethod(silent.get(), "__enter__", nullptr))) {
    PyErr_Clear();
    return {};
  }
  Ref random = Ref::steal(PyObject_CallNoArgs(known_object("torch.get_rng_state")));
  Ref made = Ref::steal(call(zeros.data()));
  Ref raised;
  if (!made && !PyErr_ExceptionMatches(PyExc_NotImplementedError)) {
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
  Ref left = Ref::steal(PyObject_CallMethod(silent.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
  PyErr_Clear();
  return raised;
}

}  // namespace

Value* tried_result(Interpreter& in, std::span<PyObject* const> objects, const char* what, const TorchCall& call) {
  try {
    return in.torch_result([&] { return call(objects.data()); }, what);
  } catch (const Break& broke) {
    const bool is_error = broke.id == BreakId::torch_error;
    if ((!is_error && broke.id != BreakId::no_shape_function) || what == kOperator || in.frames.in_transform() ||
        in.torch.tracer.wants_number_as_tensor())
      throw;
    const std::string failure = in.torch.tracer.failure();
    Ref error = error_on_zeros(objects, call);
    if (!error) throw;
    auto set = [&] { PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get()); };
    set();
    // A refusal of the tracer is no error of the program, and may depend on data.
    if (take_error_text() != failure || !is_error) throw Break{BreakId::torch_error, broke.detail};
    set();
    raise_current(in);
  }
}

}  // namespace stator::capture
