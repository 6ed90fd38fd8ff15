// The part of FunctionTracer for tensors from outside.
#include <torch/csrc/autograd/variable.h>

#include "core/tracer/function_values.h"

namespace stator::tracer {

using graph::kNoValue;

void FunctionTracer::Impl::bring_in_foreign(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) {
      if (!may_be_foreign(tensor)) return tensor;
      const at::Tensor made = host.foreign(tensor);
      return made.defined() ? made : tensor;
    });
}

void FunctionTracer::Impl::bring_in(const c10::OperatorHandle& op, torch::jit::Stack* stack, bool is_above) {
  const size_t count = op.schema().arguments().size();
  if (!any_tensor(torch::jit::last(*stack, count), is_outside)) return;
  for (size_t i = stack->size() - count; i < stack->size(); ++i)
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) { return bring_in(op, tensor, is_above); });
}

at::Tensor FunctionTracer::Impl::bring_in(const c10::OperatorHandle& op, const at::Tensor& tensor, bool is_above) {
  if (!is_outside(tensor)) return tensor;
  if (options.mode == TraceMode::Real || options.allow_real) {
    if (recorder.current(tensor) != kNoValue) return tensor;
    return is_above && !fake::can_have_fake(tensor) ? tensor : attribute(tensor);
  }
  if (recorder.current(tensor) != kNoValue) return tensor;
  if (is_above && !options.above) return tensor;
  refuse(TraceFailure::Kind::RealTensor,
         c10::toString(op.operator_name()) +
             ": a real tensor from outside the traced function. In this mode every tensor must be an input: convert it "
             "to a fake one, pass it as an argument, or set _allow_non_fake_inputs=True to make it a constant.");
}

at::Tensor FunctionTracer::Impl::attribute(const at::Tensor& real) {
  if (const auto found = forbidden.find(real.unsafeGetTensorImpl()); found != forbidden.end())
    refuse(TraceFailure::Kind::Unsupported, found->second.message);
  Outside& tensor = outside[real.unsafeGetTensorImpl()];
  if (tensor.fake.defined()) return tensor.fake;
  if (outer != nullptr) {
    // A tensor from outside of both traces: the outer one has it as an attribute, which autograd finds.
    const at::Tensor fake = outer->attribute(real);
    outside[real.unsafeGetTensorImpl()] = {real, fake, {}, false};
    attributes.push_back(fake);
    recorder.add_input("", fake);
    return fake;
  }
  const bool has_fake = fake::can_have_fake(real);
  at::Tensor fake = !has_fake ? real : options.mode == TraceMode::Real ? twins.make(real) : fakes.from_real(real);
  tensor = {real, fake, real.requires_grad() && real.is_leaf() ? real.grad() : at::Tensor(), false};
  attributes.push_back(real);
  recorder.add_input("", fake);
  if (has_fake && real.requires_grad()) {
    // Gives the fake the gradient edge of the real tensor, so that `autograd.grad(loss, parameter)` finds the
    // parameter.
    fake.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
    torch::autograd::impl::set_gradient_edge(fake, torch::autograd::impl::gradient_edge(real));
  }
  return fake;
}

}  // namespace stator::tracer
