#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "core/shapes/expression_parts.h"

namespace stator::shapes {
namespace {

/// The functions of the C library that Python's math module calls, with one argument.
double library_result(Op op, double a) {
  switch (op) {
    case Op::Acos:
      return std::acos(a);
    case Op::Acosh:
      return std::acosh(a);
    case Op::Asin:
      return std::asin(a);
    case Op::Asinh:
      return std::asinh(a);
    case Op::Atan:
      return std::atan(a);
    case Op::Atanh:
      return std::atanh(a);
    case Op::Cbrt:
      return std::cbrt(a);
    case Op::Cos:
      return std::cos(a);
    case Op::Cosh:
      return std::cosh(a);
    case Op::Exp:
      return std::exp(a);
    case Op::Exp2:
      return std::exp2(a);
    case Op::Expm1:
      return std::expm1(a);
    case Op::Log:
      return std::log(a);
    case Op::Log10:
      return std::log10(a);
    case Op::Log1p:
      return a == 0 ? a : std::log1p(a);
    case Op::Log2:
      return std::log2(a);
    case Op::Sin:
      return std::sin(a);
    case Op::Sinh:
      return std::sinh(a);
    case Op::Sqrt:
      return std::sqrt(a);
    case Op::Tan:
      return std::tan(a);
    case Op::Tanh:
      return std::tanh(a);
    default:
      throw std::domain_error("not a function of one number");
  }
}

/// Python raises where a finite number gives an infinite one, and where any number gives NaN.
double checked(double result, bool from_finite, bool from_nan) {
  if ((std::isnan(result) && !from_nan) || (std::isinf(result) && from_finite))
    throw std::domain_error("outside of the domain or range of the function");
  return result;
}

int64_t whole(double value) {
  // 2^63 itself does not fit.
  if (!(value > -0x1p63 && value < 0x1p63)) throw std::domain_error("the float does not fit a 64-bit integer");
  return static_cast<int64_t>(value);
}

/// Half of an even number and 0.5 more is rounded to the even one.
int64_t nearest(double value) {
  double rounded = std::round(value);
  constexpr double kTie = 0.5;
  if (std::fabs(value - rounded) == kTie) rounded = 2.0 * std::round(value / 2.0);
  return whole(rounded);
}

/// As CPython: the shortest path is by decimal text. The C library rounds the exact value, ties to even.
double rounded_to(double value, double digits) {
  constexpr double kMostDigits = 15, kLargest = 1e15;
  if (!(digits >= 0 && digits <= kMostDigits) || !(std::fabs(value) < kLargest))
    throw std::domain_error("not a number that is rounded here");
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(digits), value);
  return std::strtod(text, nullptr);
}

}  // namespace

bool is_math(Op op) { return (op >= Op::Round && op <= Op::Fmod) || op >= Op::RoundToInt; }

Type math_type(Op op) {
  if (op == Op::IsFinite || op == Op::IsInf || op == Op::IsNan) return Type::Bool;
  return op == Op::Ceil || op == Op::Floor || op == Op::RoundToInt ? Type::Int : Type::Float;
}

Number compute_math(Op op, double a, double b) {
  switch (op) {
    case Op::Ceil:
      return whole(std::ceil(a));
    case Op::Floor:
      return whole(std::floor(a));
    case Op::RoundToInt:
      return nearest(a);
    case Op::IsFinite:
      return static_cast<bool>(std::isfinite(a));
    case Op::IsInf:
      return static_cast<bool>(std::isinf(a));
    case Op::IsNan:
      return static_cast<bool>(std::isnan(a));
    case Op::Round:
      return rounded_to(a, b);
    case Op::Atan2:
      return std::atan2(a, b);
    case Op::Copysign:
      return std::copysign(a, b);
    case Op::Fmod:
      return checked(std::fmod(a, b), std::isfinite(a) && std::isfinite(b), std::isnan(a) || std::isnan(b));
    default:
      return checked(library_result(op, a), std::isfinite(a), std::isnan(a));
  }
}

}  // namespace stator::shapes
