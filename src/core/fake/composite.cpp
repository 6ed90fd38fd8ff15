#include "core/fake/composite.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <utility>

#include "core/fake/fake_tensor.h"
#include "core/fake/fallback_call.h"

namespace stator::fake {
namespace {

thread_local std::optional<bool> assumed;

class AssumptionScope {
 public:
  explicit AssumptionScope(bool answer) : previous_(std::exchange(assumed, answer)) {}
  ~AssumptionScope() { assumed = previous_; }
  AssumptionScope(const AssumptionScope&) = delete;

 private:
  std::optional<bool> previous_;
};

class IgnoreWarnings final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void run_on_assumption(bool answer, const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  // A warning may be caused by the assumed answer. The run of the graph gives the real ones.
  IgnoreWarnings ignore;
  c10::WarningUtils::WarningHandlerGuard no_warnings(&ignore);
  AssumptionScope scope(answer);
  op.redispatchBoxed(keys, stack);
}

std::vector<at::Tensor> tensors_among(at::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
  }
  return tensors;
}

bool is_differentiable(const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

}  // namespace

std::optional<bool> assumed_equality() { return assumed; }

const CompositeAnswer* find_composite_answer(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const CompositeAnswer* answer = fallback_call(op).composite;
  if (answer == nullptr || answer->applies == nullptr) return answer;
  return answer->applies(Args(op, const_cast<torch::jit::Stack*>(&stack))) ? answer : answer->otherwise;
}

void answer_composite(const CompositeAnswer& answer, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  if (answer.program != nullptr) return answer.program(op, stack);
  if (answer.rule == nullptr) return run_on_assumption(answer.assumed, op, keys, stack);
  count_tier(Tier::Own);
  const auto inputs = tensors_among(torch::jit::last(*stack, op.schema().arguments().size()));
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    answer.rule(op, stack);
  }
  if (!torch::autograd::compute_requires_grad(inputs)) return;
  // The type of the pointer to a node differs between releases of torch; each is made from a unique_ptr.
  using NodePointer = decltype(torch::autograd::Edge::function);
  NodePointer node(std::unique_ptr<torch::autograd::Node>(
      new torch::autograd::NotImplemented(op.schema().name(), torch::autograd::collect_next_edges(inputs))));
  for (const at::Tensor& result : tensors_among(torch::jit::last(*stack, op.schema().returns().size()))) {
    if (is_differentiable(result)) torch::autograd::set_history(result, node);
  }
}

namespace {

/// The argument that is returned at `place`, as the schema says; none if the result is a new tensor.
std::optional<size_t> returned_argument(const c10::FunctionSchema& schema, size_t place) {
  const auto* wanted = schema.returns()[place].alias_info();
  if (wanted == nullptr || !wanted->isWrite()) return std::nullopt;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* given = schema.arguments()[i].alias_info();
    if (given != nullptr && given->isWrite() && given->beforeSets() == wanted->beforeSets()) return i;
  }
  return std::nullopt;
}

template <class Run>
void with_out_arguments(const c10::OperatorHandle& op, torch::jit::Stack* stack, const Run& run) {
  const auto& schema = op.schema();
  if (!schema.is_mutable()) return run();
  const size_t first = stack->size() - schema.arguments().size();
  const torch::jit::Stack given(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  run();
  for (size_t place = 0; place < schema.returns().size(); ++place) {
    const auto argument = returned_argument(schema, place);
    c10::IValue& made = (*stack)[first + place];
    if (!argument || !made.isTensor() || !given[*argument].isTensor()) continue;
    const at::Tensor& out = given[*argument].toTensor();
    if (!out.defined() || made.toTensor().is_same(out)) continue;
    if (out.dim() != made.toTensor().dim() || out.sym_sizes() != made.toTensor().sym_sizes())
      out.resize__symint(made.toTensor().sym_sizes());
    out.copy_(made.toTensor());
    made = out;
  }
}

}  // namespace

void run_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  with_out_arguments(op, stack, [&] { op.redispatchBoxed(keys, stack); });
}

void call_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  with_out_arguments(op, stack, [&] { op.callBoxed(stack); });
}

}  // namespace stator::fake
