#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

namespace stator::fake {
namespace {

/// Writes to tensors among its arguments and returns nothing. Their metadata stays.
void writes_only(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

const ShapeRow kOptimizersRows[] = {
#include "core/ops/optimizers.def"
};

}  // namespace

void register_optimizers() { add_shapes(kOptimizersRows); }

}  // namespace stator::fake
