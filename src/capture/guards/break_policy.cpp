#include "capture/guards/break_policy.h"

namespace stator::capture {

std::optional<bool>& break_policy() {
  static thread_local std::optional<bool> policy;
  return policy;
}

}  // namespace stator::capture
