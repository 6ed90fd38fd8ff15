#pragma once

#include "capture/call/break.h"

namespace stator::capture {

/// One stands in each level of a walk into containers: what holds itself would have no end, and is a break.
class Nesting {
 public:
  Nesting() {
    if (depth_ >= kDeepest)
      throw Break{BreakId::unknown_object, "a container that holds itself, or is nested too deep"};
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;

 private:
  static constexpr int kDeepest = 200;
  static inline thread_local int depth_ = 0;
};

}  // namespace stator::capture
