#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "core/fake/fake_tensor.h"
#include "core/fake/observer.h"
#include "core/tracer/function_impl.h"

/// Helpers of the parts of FunctionTracer that the dispatcher calls.
namespace stator::tracer {

/// A tensor that the trace did not make.
inline bool is_outside(const at::Tensor& tensor) {
  if (!tensor.defined() || fake::is_fake(tensor)) return false;
  return !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

/// A tensor that another library may have made as a fake.
inline bool may_be_foreign(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_python_dispatch() && !fake::is_fake(tensor);
}

/// Whether `is` holds for a tensor among the values.
template <class F>
bool any_tensor(at::ArrayRef<c10::IValue> values, const F& is) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (is(value.toTensor())) return true;
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef())
        if (item.isTensor() && is(item.toTensor())) return true;
    }
  }
  return false;
}

/// The value with each tensor replaced by `map(tensor)`.
template <class F>
c10::IValue mapped(const c10::IValue& value, const F& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> items;
    for (const at::Tensor& item : value.toTensorVector()) items.push_back(map(item));
    return items;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> items;
    for (const c10::IValue& item : value.toListRef())
      items.push_back(item.isNone() ? std::nullopt : std::optional(map(item.toTensor())));
    return items;
  }
  return value;
}

/// RAII: operators run as plain kernels: no autograd, no modes, no fakes.
class PlainScope {
 public:
  PlainScope()
      : guard_(c10::default_included_set - c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView),
               c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                   c10::DispatchKeySet({c10::DispatchKey::Fake, kAboveKey})),
        unseen_(nullptr) {}

 private:
  c10::impl::ForceDispatchKeyGuard guard_;
  fake::ObserverScope unseen_;
};

inline void call_plain(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const PlainScope plain;
  op.callBoxed(stack);
}

/// RAII: the flag is set.
class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag), previous_(flag) { flag = true; }
  ~Flag() { flag_ = previous_; }
  Flag(const Flag&) = delete;

 private:
  bool& flag_;
  const bool previous_;
};

template <class Run>
void FunctionTracer::Impl::record(const c10::OperatorHandle& op, torch::jit::Stack* stack, const Run& run_it) {
  set_place();
  keep_offsets(op);
  auto args = recorder.arguments(op, *stack);
  // Above autograd, the operators below run on the twins of constants (`run`).
  const bool is_constant = learn_writes(op, *stack);
  if (is_constant && options.mode != TraceMode::Real && !options.above) {
    run_on_twins(op, stack);
  } else {
    run_it();
  }
  if (is_constant) learn_constants(torch::jit::last(*stack, op.schema().returns().size()));
  recorder.record(op, std::move(args), *stack);
}

}  // namespace stator::tracer
