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
  return answer->applies(Args(op, const_cast<torch::jit::Stack*>(&stack))) ? answer : nullptr;
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

}  // namespace stator::fake
