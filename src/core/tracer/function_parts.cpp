// The part of FunctionTracer for sub-graphs, and for nodes that the language computes.
#include <torch/library.h>

#include "core/base/fork_safe.h"
#include "core/fake/construct.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/function_impl.h"

namespace stator::tracer {

using graph::kNoValue;

namespace {

void refuse_call(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK(false, op.operator_name(), " is run by the language that made the graph, not by the dispatcher");
}

c10::OperatorHandle define_call() {
  // Never deleted: graphs hold the operator.
  auto* library = new torch::Library(torch::Library::FRAGMENT, "stator", std::nullopt, __FILE__, __LINE__);
  library->def("traced_call(int function, Tensor[] tensors, SymInt[] numbers) -> Tensor[]");
  library->impl("traced_call", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                               torch::CppFunction::makeFromBoxedFunction<&refuse_call>()));
  return c10::Dispatcher::singleton().findSchemaOrThrow("stator::traced_call", "");
}

auto& call_op = *new ForkSafeOnce<c10::OperatorHandle>;

}  // namespace

bool FunctionTracer::Impl::has(const at::Tensor& tensor) const {
  if (recorder.find(tensor) != kNoValue || outside.contains(tensor.unsafeGetTensorImpl())) return true;
  return outer != nullptr && outer->has(tensor);
}

bool FunctionTracer::Impl::bring_in_fake(const at::Tensor& fake) {
  if (outer != nullptr && outer->has(fake)) {
    attributes.push_back(fake);
    recorder.add_input("", fake);
    return true;
  }
  const at::Tensor real = fake::twin_of(fake);
  if (!real.defined()) return false;
  outside[real.unsafeGetTensorImpl()] = {real, fake, {}, false};
  attributes.push_back(real);
  recorder.add_input("", fake);
  return true;
}

bool FunctionTracer::Impl::bring_in_symbol(shapes::Ex symbol) {
  if (outer == nullptr) return false;
  attribute_numbers.emplace(attributes.size(), symbol);
  attributes.emplace_back();
  recorder.add_number_input("", symbol);
  return true;
}

void FunctionTracer::record_call(int64_t function, std::vector<at::Tensor> tensors, std::vector<c10::SymInt> numbers,
                                 const std::vector<at::Tensor>& results) {
  const fake::MetaBitScope meta_bit;
  const c10::OperatorHandle& op = call_op.get(define_call);
  torch::jit::Stack stack;
  stack.emplace_back(function);
  stack.emplace_back(std::move(tensors));
  stack.emplace_back(std::move(numbers));
  impl_->bring_in(op, &stack, false);
  impl_->set_place();
  auto arguments = impl_->recorder.arguments(op, stack);
  stack.clear();
  stack.emplace_back(results);
  impl_->recorder.record(op, std::move(arguments), stack);
}

}  // namespace stator::tracer
