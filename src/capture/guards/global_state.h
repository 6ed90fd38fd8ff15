#pragma once

#include <memory>
#include <string>

namespace stator::capture {

/// A snapshot of the thread's and process's state of torch that a capture depends on: dispatcher TLS keys, grad and
/// inference mode, autocast, default dtype, deterministic and attention flags, torch-function and dispatch modes,
/// levels of functorch transforms. Each entry guards it.
class GlobalState {
 public:
  virtual ~GlobalState() = default;
  virtual bool matches() const = 0;
  /// The same without torch-function modes: during a capture the interpreter has its own stack of them.
  virtual bool matches_but_modes() const = 0;
  /// What differs now, as text.
  virtual std::string mismatch() const = 0;
  /// Whether the same levels of transforms (`torch.func`, forward-mode AD) are open as in the snapshot.
  virtual bool has_same_levels() const = 0;
  /// Whether as many `autocast` blocks are open as in the snapshot.
  virtual bool has_same_autocast_depth() const = 0;
  /// Whether `restore` can undo every difference between now and the snapshot.
  virtual bool can_be_restored() const = 0;
  /// Sets everything that can be set (grad and inference mode, autocast, default dtype, attention flags, levels of
  /// transforms) to the snapshot.
  virtual void restore() const = 0;
  /// A snapshot of now.
  static std::shared_ptr<const GlobalState> current();
  /// Why nothing may be captured now (an active dispatch mode, functorch, tracing), or null.
  static const char* unsupported_mode();
};

}  // namespace stator::capture
