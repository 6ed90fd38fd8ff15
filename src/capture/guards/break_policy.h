#pragma once

#include <optional>

namespace stator::capture {

/// Whether graph breaks on this thread are errors, by the innermost `error_on_graph_break` block; empty outside of such
/// blocks. Part of `GlobalState`.
inline std::optional<bool>& break_policy() {
  static constinit thread_local std::optional<bool> policy;
  return policy;
}

/// Restores the policy when it is destroyed.
class BreakPolicyScope {
 public:
  BreakPolicyScope() : before_(break_policy()) {}
  explicit BreakPolicyScope(bool is_error) : BreakPolicyScope() { break_policy() = is_error; }
  ~BreakPolicyScope() { break_policy() = before_; }
  BreakPolicyScope(const BreakPolicyScope&) = delete;
  BreakPolicyScope& operator=(const BreakPolicyScope&) = delete;

 private:
  std::optional<bool> before_;
};

}  // namespace stator::capture
