#pragma once

#include <optional>

namespace stator::capture {

/// Whether a graph break on this thread is an error, as an `error_on_graph_break` block says; empty: in no such block.
/// A part of `GlobalState`.
inline std::optional<bool>& break_policy() {
  static constinit thread_local std::optional<bool> policy;
  return policy;
}

/// Puts it back at the end.
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
