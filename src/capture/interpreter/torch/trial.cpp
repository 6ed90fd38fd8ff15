#include "capture/interpreter/torch/trial.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/interpreter/known_types.h"
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

}  // namespace

bool raises_on_zeros(std::span<PyObject* const> objects, const TorchCall& call) {
  static PyObject* const stand_in = known_object("stator.functions.stand_in");
  Unrecorded scope;
  std::vector<Ref> owned;
  std::vector<PyObject*> zeros;
  for (PyObject* object : objects) {
    owned.push_back(Ref::steal(PyObject_CallOneArg(stand_in, object)));
    if (!owned.back()) {
      PyErr_Clear();
      return false;
    }
    zeros.push_back(owned.back().get());
  }
  Ref random = Ref::steal(PyObject_CallNoArgs(known_object("torch.get_rng_state")));
  Ref made = Ref::steal(call(zeros.data()));
  const bool raised = !made && !PyErr_ExceptionMatches(PyExc_NotImplementedError);
  PyErr_Clear();
  Ref restored = random ? Ref::steal(PyObject_CallOneArg(known_object("torch.set_rng_state"), random.get())) : Ref();
  PyErr_Clear();
  return raised;
}

}  // namespace stator::capture
