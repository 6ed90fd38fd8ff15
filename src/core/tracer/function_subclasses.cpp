// The part of FunctionTracer for tensor subclasses that are values.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "core/tracer/function_values.h"

namespace stator::tracer {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

static const auto subclass_copy_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");

bool FunctionTracer::Impl::takes_subclass_value(at::ArrayRef<c10::IValue> arguments) const {
  return any_tensor(arguments, [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.unsafeGetTensorImpl()->is_python_dispatch() && recorder.find(tensor) != kNoValue;
  });
}

void FunctionTracer::Impl::above_on_subclass(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                             torch::jit::Stack* stack) {
  const OperatorFacts& facts = facts_of(op);
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const bool needs_grad = c10::GradMode::is_enabled() && any_tensor(arguments, [](const at::Tensor& tensor) {
                            return tensor.defined() && tensor.requires_grad();
                          });
  if (facts.is_split && (needs_grad || !options.above)) return op.redispatchBoxed(keys, stack);
  if (facts.is_free) return run_on_subclass(op, stack);
  if (needs_grad) {
    if (options.above)
      refuse(TraceFailure::Kind::Unsupported,
             c10::toString(op.operator_name()) + ": gradients of a tensor subclass, above autograd");
    const std::shared_ptr<void> mode = host.subclass_mode();
    return op.redispatchBoxed(keys, stack);
  }
  if (host.decompose && host.decompose(op, stack)) return;
  record_on_subclass(op, stack);
}

void FunctionTracer::Impl::call_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowAutograd below;
  const c10::impl::ExcludeDispatchKeyGuard cast(c10::autocast_dispatch_keyset);
  const bool is_value = takes_subclass_value(torch::jit::last(*stack, op.schema().arguments().size()));
  if (is_paused || is_plain || !is_value) return op.callBoxed(stack);
  if (host.decompose && host.decompose(op, stack)) return;
  record_on_subclass(op, stack);
}

void FunctionTracer::Impl::record_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  bring_in(op, stack, false);
  if (facts_of(op).reads_data) return read(op, stack);
  record(op, stack, [&] { run_on_subclass(op, stack); });
  note_subclasses(*stack, op.schema().returns().size());
}

void FunctionTracer::Impl::note_subclasses(const torch::jit::Stack& stack, size_t count) const {
  if (!host.subclass_made) return;
  any_tensor(torch::jit::last(stack, count), [&](const at::Tensor& tensor) {
    if (may_be_foreign(tensor)) host.subclass_made(tensor);
    return false;
  });
}

bool FunctionTracer::Impl::find_copy(const at::Tensor& tensor) {
  if (recorder.find(tensor) != kNoValue) return true;
  const ValueId original = host.subclass_original ? host.subclass_original(tensor) : kNoValue;
  if (original == kNoValue) return false;
  set_place();
  torch::jit::Stack results;
  results.emplace_back(tensor);
  recorder.record(subclass_copy_op, {Argument::of_value(original)}, results);
  return true;
}

void FunctionTracer::Impl::on_forbidden(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                        torch::jit::Stack* stack, const std::string& message) {
  if (op != subclass_copy_op) refuse(TraceFailure::Kind::Unsupported, message);
  if (options.mode == TraceMode::Real) {
    call_plain(op, stack);
  } else {
    const Flag paused(is_paused);
    op.redispatchBoxed(keys, stack);
  }
  const at::Tensor& made = stack->back().toTensor();
  forbidden.try_emplace(made.unsafeGetTensorImpl(),
                        Forbidden{c10::weak_intrusive_ptr<c10::TensorImpl>(made.getIntrusivePtr()), message});
}

void FunctionTracer::Impl::run_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (options.mode == TraceMode::Real) return run_on_twins(op, stack);
  const Flag paused(is_paused);
  const at::AutoDispatchBelowAutograd below;
  op.callBoxed(stack);
}

void FunctionTracer::Impl::find_copies(at::ArrayRef<c10::IValue> arguments) {
  any_tensor(arguments, [&](const at::Tensor& tensor) {
    if (may_be_foreign(tensor)) find_copy(tensor);
    return false;
  });
}

const std::string* FunctionTracer::Impl::forbidden_among(at::ArrayRef<c10::IValue> arguments) const {
  const std::string* message = nullptr;
  any_tensor(arguments, [&](const at::Tensor& tensor) {
    const auto found = forbidden.find(tensor.unsafeGetTensorImpl());
    if (found != forbidden.end()) message = &found->second.message;
    return message != nullptr;
  });
  return message;
}

}  // namespace stator::tracer
