#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace stator::capture {

/// What the transforms of `torch.func` and forward-mode AD keep besides the dispatcher's keys. A capture opens and
/// closes their levels for real, on fakes.
struct TransformState {
  size_t layers = 0;  // levels of functorch on this thread
  bool inplace_requires_grad = false;
  bool dual_level = false;   // of forward-mode AD, in the process
  bool forward_grad = true;  // switched by the program; inference mode, which switches it too, does not count
  std::optional<std::string> hooks_disabled;  // why saved-tensor hooks may not be used now

  static TransformState current();
  /// Closes what was opened since. The dispatcher's keys are to be restored afterwards.
  void restore() const;
  bool operator==(const TransformState&) const = default;
};

}  // namespace stator::capture
