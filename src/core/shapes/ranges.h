#pragma once

#include <optional>

#include "core/shapes/expression.h"

/// Interval arithmetic over the ranges of integer expressions. INT64_MIN as the lower bound, or INT64_MAX as the upper
/// one, means that no bound is known.
namespace stator::shapes {

using WideInt = __int128;

/// The nearest 64-bit integer.
int64_t saturated(WideInt value);

/// The range of `op` applied to integers; `b` is null for unary operators.
Range range_of(Op op, const Expr& a, const Expr& b);

/// The result of the comparison `a op b`, if it follows from the range of `a - b`.
std::optional<bool> compare_by_difference(Op op, const Range& difference);

}  // namespace stator::shapes
