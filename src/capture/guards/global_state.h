#pragma once

#include <memory>
#include <string>

namespace stator::capture {

/// Everything ambient that a capture depends on: dispatcher TLS keys, grad and inference mode, autocast, default
/// dtype, deterministic and attention flags, torch-function and dispatch modes, functorch depth.
class GlobalState {
 public:
  virtual ~GlobalState() = default;
  virtual bool matches() const = 0;
  /// The same but for torch-function modes, which a capture keeps for itself.
  virtual bool matches_but_modes() const = 0;
  virtual std::string mismatch() const = 0;
  /// Whether no level of a transform (`torch.func`, forward-mode AD) was opened or closed since.
  virtual bool has_same_levels() const = 0;
  /// Whether `restore` would bring all of it back from the state of this moment.
  virtual bool can_be_restored() const = 0;
  /// Puts grad mode, inference-independent flags, autocast and levels back to this snapshot (after a capture).
  virtual void restore() const = 0;
  static std::shared_ptr<const GlobalState> current();
  /// Why nothing may be captured now (an active dispatch mode, functorch, tracing), or null.
  static const char* obstacle();
};

}  // namespace stator::capture
