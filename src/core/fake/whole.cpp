#include "core/fake/whole.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "core/fake/checks.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/tiers.h"

namespace stator::fake {

struct Whole {
  const char* name;
  /// Null: always.
  bool (*applies)(const Args& args);
  /// Null: the operator's program runs, and what it asks of values has the answer that a valid call gives.
  Rule rule;
  bool answer = true;
};

namespace {

bool without_gradient(const Args& args) {
  return args.tensor(0).device().is_cpu() && !(args.tensor(0).requires_grad() && at::GradMode::is_enabled());
}

/// Without a gradient one kernel does it all; its result is row-major whatever the input is.
void max_pool1d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto pooled = std::get<0>(
      at::max_pool1d_with_indices(self, args.ints(1), args.ints(2), args.ints(3), args.ints(4), args.boolean(5)));
  args.returns(new_contiguous(self, pooled.sym_sizes()));
}

bool on_cpu(const Args& args) { return args.tensor(0).device().is_cpu(); }

/// `(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)`.
void ctc_loss(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& log_probs = args.tensor(0);
  require(log_probs.dim() == 2 || log_probs.dim() == 3, args, "not a sequence of distributions");
  const bool one_each = args.integer(5) == at::Reduction::None && log_probs.dim() == 3;
  args.returns(new_contiguous(log_probs, one_each ? Dims{log_probs.sym_size(1)} : Dims{}));
}

bool has_class_count(const Args& args) { return args.tensor(0).scalar_type() == at::kLong && args.integer(1) > 0; }

void one_hot(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& classes = args.tensor(0);
  Dims sizes(classes.sym_sizes().begin(), classes.sym_sizes().end());
  sizes.push_back(args.integer(1));
  args.returns(new_contiguous(classes, sizes));
}

const Whole kRows[] = {
    {"aten::max_pool1d", without_gradient, max_pool1d},
    {"aten::ctc_loss.Tensor", on_cpu, ctc_loss},
    {"aten::one_hot", has_class_count, one_hot},
    {"aten::quantile", nullptr, nullptr},
    {"aten::quantile.scalar", nullptr, nullptr},
    {"aten::nanquantile", nullptr, nullptr},
    {"aten::nanquantile.scalar", nullptr, nullptr},
    {"aten::cov", nullptr, nullptr},
    {"aten::corrcoef", nullptr, nullptr},
    {"aten::istft", nullptr, nullptr, false},
};

class Silent final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void run_program(bool answer, const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  // A warning on the way may come of the assumed answers; the real run gives the real ones.
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard no_warnings(&silent);
  AssumedAnswer assumed(answer);
  op.redispatchBoxed(keys, stack);
}

std::vector<at::Tensor> tensors_among(at::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
  }
  return tensors;
}

bool is_differentiable(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

}  // namespace

void register_whole() {
  for (const Whole& row : kRows) add_whole(row.name, &row);
}

const Whole* whole_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const Whole* whole = whole_row(op);
  if (whole == nullptr || whole->applies == nullptr) return whole;
  return whole->applies(Args(op, const_cast<torch::jit::Stack*>(&stack))) ? whole : nullptr;
}

void answer_whole(const Whole& whole, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  if (whole.rule == nullptr) return run_program(whole.answer, op, keys, stack);
  count_tier(Tier::Own);
  const auto inputs = tensors_among(torch::jit::last(*stack, op.schema().arguments().size()));
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    whole.rule(op, stack);
  }
  if (!torch::autograd::compute_requires_grad(inputs)) return;
  // How nodes are counted differs between releases of torch; both counters take over a unique one.
  using NodePointer = decltype(torch::autograd::Edge::function);
  NodePointer node(std::unique_ptr<torch::autograd::Node>(
      new torch::autograd::NotImplemented(op.schema().name(), torch::autograd::collect_next_edges(inputs))));
  for (const at::Tensor& result : tensors_among(torch::jit::last(*stack, op.schema().returns().size()))) {
    if (is_differentiable(result)) torch::autograd::set_history(result, node);
  }
}

}  // namespace stator::fake
