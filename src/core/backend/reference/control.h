#pragma once

#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "core/graph/graph.h"

namespace stator::backend {

/// A node of an operator with sub-graphs (graph/control_ops.h), made runnable.
class ControlNode {
 public:
  virtual ~ControlNode() = default;
  /// `args`: the node's arguments besides its sub-graphs, in order; consumed. Returns the results.
  virtual std::vector<at::Tensor> run(torch::jit::Stack& args) const = 0;
};

std::unique_ptr<ControlNode> make_control_node(const graph::Node& node);

}  // namespace stator::backend
