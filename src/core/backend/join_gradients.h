#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <string>
#include <vector>

#include "core/base/export.h"
#include "core/graph/control_ops.h"

namespace stator::backend {

/// Makes a control node one operation to autograd, as torch's own operators are: the results are copies of `made`, and
/// require gradients if one of `operands` does. An operand that did not contribute to `made` gets a gradient of zeros.
/// For ControlOp::Cond and ControlOp::Scan. Works on fakes, too.
STATOR_API std::vector<at::Tensor> join_gradients(graph::ControlOp op, const std::vector<at::Tensor>& made,
                                                  const std::vector<at::Tensor>& operands);

/// The autograd nodes that `join_gradients` makes, with the names that torch's own have.
struct STATOR_API JoinBackward : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;

  size_t num_results = 0;
  struct Operand {
    std::vector<c10::SymInt> sizes;
    at::TensorOptions options;
  };
  std::vector<Operand> operands;
};
struct STATOR_API CondBackward final : JoinBackward {
  std::string name() const override { return "CondAutogradOpBackward"; }
};
struct STATOR_API ScanBackward final : JoinBackward {
  std::string name() const override { return "ScanAutogradOpBackward"; }
};

}  // namespace stator::backend
