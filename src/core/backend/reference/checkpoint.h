#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/export.h"

namespace stator::backend {

struct CheckpointOptions {
  bool preserve_rng_state = true;  // a recomputation draws the random numbers that the forward pass drew
  bool early_stop = true;          // a recomputation ends with the last tensor that is needed
  bool checks_metadata = true;     // recomputed tensors must have the shapes, dtypes and devices of the first ones
};

/// Runs `part` on `arguments` and `operands`, as torch.utils.checkpoint does without reentrant backward passes:
/// autograd saves none of its intermediates. The first one that a backward pass asks for makes the part run again, and
/// each recomputed tensor is dropped as soon as autograd has taken it. `arguments` must not be written to in between.
///
/// Parts may be nested: the arguments of the inner part are intermediates of the outer one. Threads may run backward
/// passes over the same part at the same time; each recomputes for itself.
STATOR_API std::vector<at::Tensor> run_checkpoint(const std::shared_ptr<const Executable>& part,
                                                  std::vector<at::Tensor> arguments, std::vector<at::Tensor> operands,
                                                  const CheckpointOptions& options);

}  // namespace stator::backend
