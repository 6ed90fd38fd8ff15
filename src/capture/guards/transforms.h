#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace stator::capture {

/// The state of `torch.func` transforms and forward-mode AD, apart from the dispatcher's keys. During a capture, levels
/// of transforms are really opened and closed, on fakes.
struct TransformState {
  size_t layers = 0;  // number of functorch levels on this thread
  bool inplace_requires_grad = false;
  bool dual_level = false;   // a level of forward-mode AD is open, in the process
  bool forward_grad = true;  // false if the program disabled it; inference mode disables it too, but does not count
  std::optional<std::string> hooks_disabled;  // why saved-tensor hooks may not be used now

  static TransformState current();
  /// Closes the levels that were opened since this state was read. The caller must restore the dispatcher's keys
  /// afterwards.
  void restore() const;
  bool operator==(const TransformState&) const = default;
};

}  // namespace stator::capture
