#include <cmath>
#include <stdexcept>

#include "core/shapes/expression_parts.h"

namespace stator::shapes {
namespace {

[[noreturn]] void fail(const char* why) { throw std::domain_error(why); }

int64_t to_int(const Number& number) {
  if (const auto* integer = std::get_if<int64_t>(&number)) return *integer;
  if (const auto* truth = std::get_if<bool>(&number)) return *truth ? 1 : 0;
  const double value = std::get<double>(number);
  // 2^63 itself does not fit.
  if (!(value > -0x1p63 && value < 0x1p63)) fail("the float does not fit a 64-bit integer");
  return static_cast<int64_t>(value);
}

bool is_float(const Number& number) { return std::holds_alternative<double>(number); }

double to_float(const Number& number) {
  if (is_float(number)) return std::get<double>(number);
  const int64_t integer = to_int(number);
  constexpr int64_t kExact = int64_t{1} << 53;
  if (integer > kExact || integer < -kExact) fail("a float does not hold the integer");
  return static_cast<double>(integer);
}

bool to_bool(const Number& number) { return is_float(number) ? std::get<double>(number) != 0 : to_int(number) != 0; }

int64_t floor_division(int64_t a, int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1 && a == INT64_MIN) fail("the integer does not fit 64 bits");
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t int_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (bool overflow = false; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) overflow = __builtin_mul_overflow(result, base, &result);
    if (exponent > 1) overflow = __builtin_mul_overflow(base, base, &base) || overflow;
    if (overflow) fail("the integer does not fit 64 bits");
  }
  return result;
}

Number int_result(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::Add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::Sub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::Mul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::FloorDiv:
      return floor_division(a, b);
    case Op::Mod:
      return a - floor_division(a, b) * b;
    case Op::Pow:
      return int_power(a, b);
    default:
      fail("not an operator of integers");
  }
  if (overflow) fail("the integer does not fit 64 bits");
  return result;
}

/// The remainder has the sign of the divisor, as in Python.
double float_remainder(double a, double b) {
  if (b == 0) fail("division by zero");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

double float_floor_division(double a, double b) {
  if (b == 0) fail("division by zero");
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

double float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("zero to a negative power");
  const bool is_finite = std::isfinite(base) && std::isfinite(exponent);
  if (is_finite && base < 0 && exponent != std::floor(exponent)) fail("the result is complex");
  const double result = std::pow(base, exponent);
  if (is_finite && !std::isfinite(result)) fail("the float is too large");
  return result;
}

Number float_result(Op op, double a, double b) {
  switch (op) {
    case Op::Add:
      return a + b;
    case Op::Sub:
      return a - b;
    case Op::Mul:
      return a * b;
    case Op::TrueDiv:
      if (b == 0) fail("division by zero");
      return a / b;
    case Op::FloorDiv:
      return float_floor_division(a, b);
    case Op::Mod:
      return float_remainder(a, b);
    case Op::Pow:
      return float_power(a, b);
    default:
      fail("not an operator of floats");
  }
}

template <class T>
bool compared(Op op, T a, T b) {
  switch (op) {
    case Op::Lt:
      return a < b;
    case Op::Le:
      return a <= b;
    case Op::Eq:
      return a == b;
    case Op::Ne:
      return a != b;
    case Op::Gt:
      return a > b;
    default:
      return a >= b;
  }
}

bool compare(Op op, const Number& a, const Number& b) {
  if (is_float(a) || is_float(b)) return compared(op, to_float(a), to_float(b));
  return compared(op, to_int(a), to_int(b));
}

}  // namespace

Number compute(Op op, const Number& a, const Number& b) {
  if (is_math(op)) return compute_math(op, to_float(a), is_unary(op) ? 0 : to_float(b));
  switch (op) {
    case Op::Min:
      return compare(Op::Lt, b, a) ? b : a;
    case Op::Max:
      return compare(Op::Gt, b, a) ? b : a;
    case Op::And:
      return to_bool(a) && to_bool(b);
    case Op::Or:
      return to_bool(a) || to_bool(b);
    case Op::Not:
      return !to_bool(a);
    case Op::ToBool:
      return to_bool(a);
    case Op::ToInt:
      return to_int(a);
    case Op::ToFloat:
      return to_float(a);
    case Op::Neg:
      if (is_float(a)) return -std::get<double>(a);
      return int_result(Op::Sub, 0, to_int(a));
    case Op::Abs:
      if (is_float(a)) return std::fabs(std::get<double>(a));
      return to_int(a) < 0 ? int_result(Op::Sub, 0, to_int(a)) : Number(to_int(a));
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::Gt:
    case Op::Ge:
      return compare(op, a, b);
    case Op::TrueDiv:
      return float_result(op, to_float(a), to_float(b));
    case Op::Pow:
      // A negative exponent of integers gives a float.
      if (!is_float(a) && !is_float(b) && to_int(b) >= 0) return int_result(op, to_int(a), to_int(b));
      return float_result(op, to_float(a), to_float(b));
    default:
      if (is_float(a) || is_float(b)) return float_result(op, to_float(a), to_float(b));
      return int_result(op, to_int(a), to_int(b));
  }
}

}  // namespace stator::shapes
