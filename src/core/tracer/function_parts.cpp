// The part of FunctionTracer for sub-graphs, and for nodes that the language computes.
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "core/base/fork_safe.h"
#include "core/fake/construct.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/function_impl.h"

namespace stator::tracer {

using graph::kNoValue;

namespace {

void refuse_call(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK(false, op.operator_name(), " is run by the language that made the graph, not by the dispatcher");
}

at::Tensor storage_offset(const at::Tensor& self) { return shapes::number_tensor(self.storage_offset()); }

struct Operators {
  c10::OperatorHandle call, offset;
};

Operators define_operators() {
  // Never deleted: graphs hold the operator.
  auto* library = new torch::Library(torch::Library::FRAGMENT, "stator", std::nullopt, __FILE__, __LINE__);
  library->def("traced_call(int function, Tensor[] tensors, Any[] numbers) -> Tensor[]");
  library->impl("traced_call", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                               torch::CppFunction::makeFromBoxedFunction<&refuse_call>()));
  library->def("storage_offset(Tensor self) -> Tensor");
  library->impl("storage_offset",
                torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(storage_offset)));
  library->impl("storage_offset", torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
  auto find = [](const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); };
  return {find("stator::traced_call"), find("stator::storage_offset")};
}

auto& operators = *new ForkSafeOnce<Operators>;

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

void FunctionTracer::Impl::learn_offset(const at::Tensor& fake, graph::ValueId input) {
  if (!fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return;
  const auto expr = shapes::expression_of(fake.sym_storage_offset());
  if (expr && expr->op == shapes::Op::Symbol) offsets.emplace_back(expr.get(), input);
}

void FunctionTracer::Impl::keep_offsets(const c10::OperatorHandle& op) {
  if (offsets.empty() || !op.hasTag(at::Tag::inplace_view)) return;
  const auto all = std::exchange(offsets, {});
  for (const auto& [symbol, input] : all) add_offset(symbol, input);
}

void FunctionTracer::Impl::add_offset(shapes::Ex symbol, graph::ValueId input) {
  recorder.add_number(operators.get(define_operators).offset, {graph::Argument::of_value(input)}, symbol);
}

bool FunctionTracer::Impl::bring_in_symbol(shapes::Ex symbol) {
  const auto offset = std::ranges::find(offsets, symbol, [](const auto& entry) { return entry.first; });
  if (offset != offsets.end()) {
    add_offset(symbol, offset->second);
    return true;
  }
  if (outer == nullptr) return false;
  attribute_numbers.emplace(attributes.size(), symbol);
  attributes.emplace_back();
  recorder.add_number_input("", symbol);
  return true;
}

void FunctionTracer::record_call(int64_t function, std::vector<at::Tensor> tensors,
                                 const std::vector<c10::IValue>& numbers, const std::vector<at::Tensor>& results) {
  const fake::MetaBitScope meta_bit;
  const c10::OperatorHandle& op = operators.get(define_operators).call;
  torch::jit::Stack stack;
  stack.emplace_back(function);
  stack.emplace_back(std::move(tensors));
  c10::impl::GenericList list(c10::AnyType::get());
  for (const c10::IValue& number : numbers) list.push_back(number);
  stack.emplace_back(std::move(list));
  impl_->bring_in(op, &stack, false);
  impl_->set_place();
  auto arguments = impl_->recorder.arguments(op, stack);
  stack.clear();
  stack.emplace_back(results);
  impl_->recorder.record(op, std::move(arguments), stack);
}

}  // namespace stator::tracer
