#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/reference/random_states.h"
#include "core/base/export.h"

/// torch.utils.checkpoint with reentrant backward passes: the part is one operation to autograd, whose backward runs
/// the part again and then a backward pass over that run.
namespace stator::backend {

/// The autograd node, with the name that torch's own has.
struct STATOR_API CheckpointBackward final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  void release_variables() override;
  std::string name() const override { return "CheckpointFunctionBackward"; }

  std::shared_ptr<const Executable> part;  // the part, with gradients
  std::vector<torch::autograd::SavedVariable> arguments;
  std::vector<at::Tensor> operands;
  std::optional<RandomStates> random;  // in which the part ran first
};

/// Makes tensors, computed without gradients, the results of a reentrant checkpoint of `arguments`. Works on fakes,
/// too: there, `part` is null.
STATOR_API void attach_checkpoint(const std::vector<at::Tensor>& made, const std::vector<at::Tensor>& arguments,
                                  std::vector<at::Tensor> operands, std::shared_ptr<const Executable> part,
                                  std::optional<RandomStates> random);

/// Runs `first`, a part in which gradients are off. A backward pass runs `again`, the same part with gradients, on
/// detached `arguments`. Gradients must be on, and an argument must require them.
STATOR_API std::vector<at::Tensor> run_reentrant_checkpoint(const Executable& first,
                                                            const std::shared_ptr<const Executable>& again,
                                                            std::vector<at::Tensor> arguments,
                                                            std::vector<at::Tensor> operands, bool preserve_rng_state);

}  // namespace stator::backend
