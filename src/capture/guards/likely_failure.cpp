#include "capture/guards/likely_failure.h"

#include "capture/guards/kinds.h"

namespace stator::capture {

bool LikelyFailure::run(const GuardInput& input) {
  CheckRun run{input, slots_.data(), fresh_.data()};
  for (Check& check : checks_)
    if (check.fn(check, run) == 0) {
      useless_ = 0;
      return true;
    }
  if (++useless_ >= kMostUseless) checks_.clear();
  return false;
}

/// Whether the check can run without the others of its block, and reads no slot but its own and its parent's.
static bool stands_alone(const Check& check) {
  if (check.group == CheckGroup::DictHead || check.group == CheckGroup::DictTail) return false;
  return check.group != CheckGroup::Fact || stage_of(static_cast<FactKind>(check.kind)) != FactStage::Relation;
}

void LikelyFailure::learn(std::span<const Check> checks, size_t failed, const std::vector<bool>& path,
                          PyObject* const* seen) {
  checks_.clear();
  slots_.clear();
  useless_ = 0;
  if (!stands_alone(checks[failed])) return;
  std::vector<int32_t> numbers(path.size(), 0);
  for (size_t slot = 0; slot < path.size(); ++slot)
    if (path[slot]) {
      numbers[slot] = static_cast<int32_t>(slots_.size());
      slots_.push_back(seen[slot]);
    }
  for (size_t i = 0; i <= failed; ++i) {
    if (!path[checks[i].slot] || !stands_alone(checks[i])) continue;
    Check check = checks[i];
    check.slot = numbers[check.slot];
    check.from = numbers[check.from];
    checks_.push_back(check);
  }
  fresh_.clear();
  fresh_.resize(slots_.size());
}

}  // namespace stator::capture
