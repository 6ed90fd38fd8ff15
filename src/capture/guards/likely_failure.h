#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "capture/guards/check.h"

namespace stator::capture {

/// The check that failed last, with the checks on the path to its object. Rejects most calls that the guards would
/// reject, without a full pass. Uses slots of its own. GIL held.
///
/// Its checks are among those that a full pass runs, in the same order, so where one of them fails the guards do not
/// hold; and no check reads an object whose class an earlier one did not establish.
class LikelyFailure {
 public:
  /// Whether the check fails again. False: it does not, or none is known. No watched object of the array may have died.
  bool fails(const GuardInput& input) { return !checks_.empty() && run(input); }
  /// The guards did not hold, although `fails` returned false. True: the caller is to find out which check failed, and
  /// to call `learn`. That takes as long as a pass over all guards, so it is asked for after several failures only.
  bool note_failure() {
    if (++failures_ < wanted_failures_) return false;
    failures_ = 0;
    wanted_failures_ = std::min(2 * wanted_failures_, kMostFailures);
    return true;
  }
  void note_success() { failures_ = 0; }
  /// `failed`: the index of the check. `path`: the slots from which its object is read, and its own, by slot. `seen`:
  /// the objects of pinned slots.
  void learn(std::span<const Check> checks, size_t failed, const std::vector<bool>& path, PyObject* const* seen);

 private:
  static constexpr uint32_t kFirstFailures = 2, kMostFailures = 64, kMostUseless = 8;

  bool run(const GuardInput& input);

  std::vector<Check> checks_;     // copies, over slots of their own numbers
  std::vector<PyObject*> slots_;  // borrowed
  std::vector<Ref> fresh_;        // see CheckRun
  uint32_t useless_ = 0;          // calls in a row in which no check here failed
  uint32_t failures_ = 0, wanted_failures_ = kFirstFailures;
};

}  // namespace stator::capture
