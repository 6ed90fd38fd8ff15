#pragma once

#include "core/shapes/expr.h"

/// Interval and congruence arithmetic of the integer operators.
namespace stator::shapes {

/// The range and congruence of an operation on integers, from those of its operands (`Expression::derived`), which must
/// be current.
Range range_of_operation(Ex expr);
Congruence congruence_of_operation(Ex expr);

Range sum_of(const Range& a, const Range& b);
Range product_of(const Range& a, const Range& b);
/// Of `times * x + addend`.
Congruence affine(const Congruence& x, WideInt times, WideInt addend);
Range scaled_range(const Range& a, WideInt times);

/// The value of the comparison with `bound`, if it is the same for all numbers of the range and congruence.
std::optional<bool> compare_range(Op op, const Range& range, const Congruence& congruence, WideInt bound);

}  // namespace stator::shapes
