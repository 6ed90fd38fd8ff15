#include "capture/guards/transforms.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "capture/pycompat/ref.h"

namespace stator::capture {
namespace {

using torch::autograd::ForwardADLevel;

/// Calls a function of `torch._C._functorch`. Its C++ headers include files that are not installed with torch.
Ref functorch(const char* name, PyObject* argument = nullptr) {
  static PyObject* const module = [] {
    Ref torch_c = Ref::steal(PyImport_ImportModule("torch._C"));
    return torch_c ? PyObject_GetAttrString(torch_c.get(), "_functorch") : nullptr;
  }();
  Ref function = Ref::steal(module ? PyObject_GetAttrString(module, name) : nullptr);
  if (!function) return {};
  return Ref::steal(argument ? PyObject_CallOneArg(function.get(), argument) : PyObject_CallNoArgs(function.get()));
}

/// Keeps a Python error that is set, while Python functions are called.
class ErrorAside {
 public:
  ErrorAside() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~ErrorAside() { PyErr_Restore(type_, value_, trace_); }
  ErrorAside(const ErrorAside&) = delete;
  ErrorAside& operator=(const ErrorAside&) = delete;

 private:
  PyObject *type_, *value_, *trace_;
};

}  // namespace

TransformState TransformState::current() {
  ErrorAside aside;
  Ref open_layers = functorch("get_dynamic_layer_stack_depth"),
      inplace = functorch("get_inplace_requires_grad_allowed");
  const auto& autograd = c10::AutogradState::get_tls_state();
  return {open_layers ? PyLong_AsSize_t(open_layers.get()) : 0, inplace.get() == Py_True,
          static_cast<bool>(ForwardADLevel::try_get_by_idx(0)),
          autograd.get_fw_grad_mode() || autograd.get_inference_mode(),
          at::SavedTensorDefaultHooks::get_disabled_error_message()};
}

void TransformState::restore() const {
  ErrorAside aside;
  TransformState now = current();
  if (now == *this) return;
  if (now.layers > layers) {
    Ref count = Ref::steal(PyLong_FromSize_t(layers));
    functorch("pop_dynamic_layer_stack_and_undo_to_depth", count.get());
  }
  functorch("set_inplace_requires_grad_allowed", inplace_requires_grad ? Py_True : Py_False);
  if (now.dual_level && !dual_level) ForwardADLevel::release_idx(0);
  if (hooks_disabled)
    at::SavedTensorDefaultHooks::disable(*hooks_disabled);
  else
    at::SavedTensorDefaultHooks::enable();
}

}  // namespace stator::capture
