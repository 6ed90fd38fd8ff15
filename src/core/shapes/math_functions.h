#pragma once

#include "core/shapes/number.h"

namespace stator::shapes {

/// Functions of Python's `math` module on floats. None where Python would raise.
Value math_of_one(Op op, double x);
/// Op::RoundDigits and the functions of two floats. None for a number that only Python rounds.
Value math_of_two(Op op, double a, double b);

}  // namespace stator::shapes
