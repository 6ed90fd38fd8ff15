#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "core/base/export.h"
#include "core/graph/graph.h"

/// Operators whose arguments hold sub-graphs. The dispatcher only knows their schemas: an executor runs the sub-graphs
/// itself. Each sub-graph of a node takes all tensors of the node's list arguments, in order.
///
///   stator::cond(Tensor predicate, Any yes, Any no, Tensor[] operands, bool differentiable) -> Tensor[]
///   stator::while_loop(Any test, Any body, Tensor[] carried, Tensor[] operands) -> Tensor[]
///   stator::map(Any body, Tensor[] rows, Tensor[] operands) -> Tensor[]
///   stator::scan(Any body, Tensor[] carried, Tensor[] rows, Tensor[] operands, bool differentiable) -> Tensor[]
///   stator::checkpoint(Any body, Tensor[] arguments, Tensor[] operands, bool? preserve_rng_state,
///                      bool? early_stop, str? determinism_check) -> Tensor[]
///   stator::checkpoint.writing(the same, with arguments and operands that `body` may write to)
///   stator::reentrant_checkpoint(Any first, Any again, Tensor[] arguments, Tensor[] operands,
///                                bool preserve_rng_state) -> Tensor[]
///   stator::reentrant_checkpoint.writing(the same, with operands that the sub-graphs may write to)
///
/// - `cond` runs `yes` or `no`. `while_loop` runs `body`, whose results are the next `carried`, as long as `test` gives
///   true. `map` runs `body` for each row (index along the first dimension) and stacks the results. `scan` does both:
///   the first results of `body` are the next `carried`, the others are stacked.
/// - `differentiable`: the node is one operation to autograd, in which every operand takes part; one that did not
///   contribute gets a gradient of zeros.
/// - `checkpoint` runs `body` now, and again when a backward pass needs what autograd would have saved of it.
///   `arguments` must not be written to in between. Options that the program does not give are None.
/// - `reentrant_checkpoint` runs `first`, without gradients. To autograd it is one operation on `arguments`, whose
///   backward runs `again`, the same body with gradients.
/// - Results share no memory with operands or with each other, but for those of
///   `checkpoint`.
namespace stator::graph {

enum class ControlOp : uint8_t {
  Cond,
  WhileLoop,
  Map,
  Scan,
  Checkpoint,
  WritingCheckpoint,
  Reentrant,
  WritingReentrant
};

/// Defines the operators. The functions below call it themselves.
STATOR_API void install_control_ops();
STATOR_API const c10::OperatorHandle& control_op(ControlOp op);
/// Whether the operator is one of these.
STATOR_API bool is_control_op(const c10::OperatorHandle& op);

/// Checks the number of results and inputs of each sub-graph of the node. Returns the first problem as
/// text, or an empty string. Does not check the sub-graphs themselves.
STATOR_API std::string find_control_problem(const Node& node);

}  // namespace stator::graph
