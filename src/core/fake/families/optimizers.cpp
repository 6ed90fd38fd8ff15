#include "core/fake/rule.h"
#include "core/fake/spec.h"

namespace stator::fake {
namespace {

/// Writes into tensors of its arguments, whose metadata stays, and returns nothing.
void writes_only(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

}  // namespace

void register_optimizers() {
  add_rules({
      {"aten::_fused_sgd_", writes_only},
      {"aten::_fused_sgd_.tensor_lr", writes_only},
      {"aten::_fused_adam_", writes_only},
      {"aten::_fused_adam_.tensor_lr", writes_only},
      {"aten::_fused_adamw_", writes_only},
      {"aten::_fused_adamw_.tensor_lr", writes_only},
      {"aten::_fused_adagrad_", writes_only},
      {"aten::_fused_adagrad_.tensor_lr", writes_only},
      {"aten::_amp_foreach_non_finite_check_and_unscale_", writes_only},
      {"aten::_amp_update_scale_", same_self},
  });
}

}  // namespace stator::fake
