#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include "core/graph/graph.h"

/// When autograd's kernels may be left out of a replay. They may whenever they would do nothing but pass the call on;
/// version counters and view tracking live in another layer that always stays.
namespace stator::backend {

/// Whether every op's autograd kernel is a mere pass-through when nothing requires grad. Not known of ops outside
/// ATen, whose kernels may do anything, nor true of ops that change what requires grad.
bool autograd_is_passive(const graph::Graph& graph);

enum class AutogradNeed : uint8_t {
  Always,      // unusual surroundings or inputs: leave everything as it is
  InGradMode,  // some input requires grad
  Never,
};
AutogradNeed autograd_need(at::ArrayRef<at::Tensor> inputs);

}  // namespace stator::backend
