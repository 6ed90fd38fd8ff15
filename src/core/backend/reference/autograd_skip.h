#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include "core/graph/graph.h"

/// Decides whether a run may skip autograd's kernels. It may if they would only pass the call on;
/// version counters and view tracking are in another layer, which is never skipped.
namespace stator::backend {

/// Whether every op's autograd kernel is a mere pass-through when nothing requires grad. Not known of ops outside
/// ATen, whose kernels may do anything, nor true of ops that change what requires grad.
bool autograd_is_passive(const graph::Graph& graph);

enum class AutogradNeed : uint8_t {
  Always,      // unusual thread state or inputs: skip nothing
  InGradMode,  // some input requires grad
  Never,
};
AutogradNeed autograd_need(at::ArrayRef<at::Tensor> inputs);

/// Makes a result of a run that skipped autograd's kernels an ordinary tensor, if it is a view of a tensor that nothing
/// else refers to. A kernel made of views gives such a result; under autograd's kernel, views in it are not tracked.
void forget_inner_base(const at::Tensor& result);

}  // namespace stator::backend
