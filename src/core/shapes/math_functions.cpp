#include "core/shapes/math_functions.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace stator::shapes {
namespace {

using Function = double (*)(double);

/// By operator, from Op::Sqrt on: the functions of the C library that Python's math module calls.
constexpr Function kFunctions[] = {
    [](double x) { return std::sqrt(x); },
    [](double x) { return std::exp(x); },
    [](double x) { return std::log(x); },
    [](double x) { return std::log2(x); },
    [](double x) { return std::sin(x); },
    [](double x) { return std::cos(x); },
    [](double x) { return std::tan(x); },
    [](double x) { return std::asin(x); },
    [](double x) { return std::acos(x); },
    [](double x) { return std::atan(x); },
    [](double x) { return std::sinh(x); },
    [](double x) { return std::cosh(x); },
    [](double x) { return std::tanh(x); },
    [](double x) { return std::asinh(x); },
    [](double x) { return std::acosh(x); },
    [](double x) { return std::atanh(x); },
    [](double x) { return std::cbrt(x); },
    [](double x) { return std::exp2(x); },
    [](double x) { return std::expm1(x); },
    [](double x) { return std::log10(x); },
    [](double x) { return x == 0 ? x : std::log1p(x); },
};
constexpr size_t first_function() { return static_cast<size_t>(Op::Sqrt); }
static_assert(std::size(kFunctions) == static_cast<size_t>(Op::Log1p) + 1 - first_function());

/// Python raises where a finite number gives an infinite one, and where any number gives NaN.
Value checked(double result, bool from_finite, bool from_nan) {
  if ((std::isnan(result) && !from_nan) || (std::isinf(result) && from_finite)) return {};
  return Value::of_float(result);
}

/// The C library rounds the exact value, ties to even, as CPython does through a decimal text.
Value rounded_to(double value, double digits) {
  constexpr double kMostDigits = 15, kLargest = 1e15;
  if (!(digits >= 0 && digits <= kMostDigits) || !(std::fabs(value) < kLargest)) return {};
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(digits), value);
  return Value::of_float(std::strtod(text, nullptr));
}

}  // namespace

Value math_of_one(Op op, double x) {
  switch (op) {
    case Op::IsFinite:
      return Value::of_bool(std::isfinite(x));
    case Op::IsInf:
      return Value::of_bool(std::isinf(x));
    case Op::IsNan:
      return Value::of_bool(std::isnan(x));
    default:
      return checked(kFunctions[static_cast<size_t>(op) - first_function()](x), std::isfinite(x), std::isnan(x));
  }
}

Value math_of_two(Op op, double a, double b) {
  switch (op) {
    case Op::RoundDigits:
      return rounded_to(a, b);
    case Op::Atan2:
      return Value::of_float(std::atan2(a, b));
    case Op::Copysign:
      return Value::of_float(std::copysign(a, b));
    default:
      return checked(std::fmod(a, b), std::isfinite(a) && std::isfinite(b), std::isnan(a) || std::isnan(b));
  }
}

}  // namespace stator::shapes
