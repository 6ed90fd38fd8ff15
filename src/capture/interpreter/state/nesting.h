#pragma once

#include "capture/call/break.h"

namespace stator::capture {

/// One object per level of a recursion over nested values. Breaks if the nesting is too deep: a container may contain
/// itself.
class Nesting {
 public:
  Nesting() {
    if (levels_ >= kDeepest)
      throw Break{BreakId::unknown_object, "a container that holds itself, or is nested too deep"};
    ++levels_;
  }
  ~Nesting() { --levels_; }
  Nesting(const Nesting&) = delete;

 private:
  static constexpr int kDeepest = 200;
  static inline thread_local int levels_ = 0;
};

}  // namespace stator::capture
