#pragma once

#include <unordered_map>

#include "core/shapes/expr.h"

namespace stator::tracer {

/// Sums of integers that a graph computes. A program that adds up in a loop makes sums that grow by a term: each is
/// computed from the one before, so that the graph stays linear in the number of terms.
class ComputedSums {
 public:
  void add(shapes::Ex sum);
  /// A sum that has all terms of `sum` but one, with any addend; else the one that was added last. May be null.
  shapes::Ex find_near(shapes::Ex sum) const;

 private:
  std::unordered_map<uint64_t, shapes::Ex> by_terms_;
  shapes::Ex last_ = nullptr;
};

}  // namespace stator::tracer
