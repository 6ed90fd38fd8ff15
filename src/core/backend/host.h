#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "core/base/export.h"

/// What executors need of Python. The layer above gives it, once, at load; a program without Python gives nothing.
namespace stator::backend {

/// Called between the turns of a loop; throws where a signal handler raised.
using InterruptCheck = void (*)();
STATOR_API void set_interrupt_check(InterruptCheck check);

/// What autograd calls while it saves tensors, and when it needs them again. One object may serve several threads.
class STATOR_API SavedTensorHooks {
 public:
  virtual ~SavedTensorHooks() = default;
  /// Returns what autograd stores in place of the tensor.
  virtual std::shared_ptr<void> pack(const at::Tensor& tensor) = 0;
  /// The tensor again; `stored` is what `pack` returned.
  virtual at::Tensor unpack(const std::shared_ptr<void>& stored) = 0;
};

/// `pack` throws it to end a recomputation. What it becomes on its way through Python is left to the layer above.
struct STATOR_API StopRecomputation {};

/// An error of a checkpointed part, with torch's message. The layer above raises torch's class for it.
class STATOR_API CheckpointError final : public std::runtime_error {
 public:
  enum class Kind : uint8_t {
    Differs,        // recomputation saved other tensors than the forward pass; torch adds a hint to the message
    UnpackedTwice,  // autograd asked twice for the same tensor in one backward pass
    Inconsistent,   // an assertion
  };
  CheckpointError(Kind kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
  const Kind kind;
};

/// Torch knows hooks of saved tensors only as Python objects. Without this, a checkpointed part is run once, and
/// autograd saves what it needs.
struct CheckpointHost {
  /// Adds hooks for what autograd saves on this thread; `pop` removes the latest ones.
  void (*push)(std::shared_ptr<SavedTensorHooks> hooks) = nullptr;
  void (*pop)() = nullptr;
  /// Called after an exception that `pack` threw came back through autograd and was caught.
  void (*forget_error)() = nullptr;
  /// The program's group of backward passes for which a part is computed only once (GraphExecGroup in torch); null
  /// outside of a group. Equal pointers mean the same group.
  std::shared_ptr<void> (*current_group)() = nullptr;
};
STATOR_API void set_checkpoint_host(const CheckpointHost& host);

}  // namespace stator::backend
