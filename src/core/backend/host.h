#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/export.h"

/// What executors need of Python. The layer above gives it, once, at load; a program without Python gives nothing.
namespace stator::backend {

/// Called between the turns of a loop; throws where a signal handler raised.
using InterruptCheck = void (*)();
STATOR_API void set_interrupt_check(InterruptCheck check);

/// What the program said to torch.utils.checkpoint; empty: nothing.
struct CheckpointOptions {
  std::optional<bool> preserve_rng_state;
  std::optional<bool> early_stop;
  std::optional<std::string> determinism_check;
};

/// Runs `part` on `arguments` and `operands`, and again when a backward pass needs it. In torch, the hooks of saved
/// tensors that this takes are Python objects. Without a runner, a part is run once, and autograd saves what it needs.
using CheckpointRunner = std::vector<at::Tensor> (*)(const std::shared_ptr<const Executable>& part,
                                                     std::vector<at::Tensor> arguments,
                                                     std::vector<at::Tensor> operands,
                                                     const CheckpointOptions& options);
STATOR_API void set_checkpoint_runner(CheckpointRunner runner);

}  // namespace stator::backend
