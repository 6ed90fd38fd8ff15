#include "core/shapes/number.h"

#include <cmath>
#include <iterator>

#include "core/shapes/math_functions.h"

namespace stator::shapes {
namespace {

constexpr const char* kOperatorNames[] = {
#define STATOR_NUMBER_OPERATOR(name, text) text,
#include "core/shapes/operators.def"
#undef STATOR_NUMBER_OPERATOR
};

/// The largest number of bits of a shift. More cannot give a number of 128 bits unless the operand is zero.
constexpr WideInt kMaxShift = 126;

double as_float(const Value& value) { return value.is_float() ? value.real() : nearest_float(value.integer()); }

bool as_truth(const Value& value) { return value.is_float() ? value.real() != 0 : value.truth(); }

/// `fits` says whether `result` was stored: it is evaluated first.
Value checked(bool fits, const WideInt& result) { return fits ? Value::of_int(result) : Value(); }

Value integer_power(WideInt base, WideInt exponent) {
  WideInt result = 1;
  for (bool fits = true; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) fits = multiply_wide(result, base, &result);
    if (exponent > 1) fits = multiply_wide(base, base, &base) && fits;
    if (!fits) return {};
  }
  return Value::of_int(result);
}

Value shifted_left(WideInt a, WideInt b) {
  if (b < 0) return {};
  if (a == 0) return Value::of_int(0);
  if (b > kMaxShift) return {};
  WideInt result = 0;
  return checked(multiply_wide(a, WideInt(1) << static_cast<int>(b), &result), result);
}

Value shifted_right(WideInt a, WideInt b) {
  if (b < 0) return {};
  return Value::of_int(b > kMaxShift ? (a < 0 ? -1 : 0) : a >> static_cast<int>(b));
}

Value on_integers(Op op, WideInt a, WideInt b) {
  WideInt result = 0;
  switch (op) {
    case Op::Add:
      return checked(add_wide(a, b, &result), result);
    case Op::Sub:
      return checked(!__builtin_sub_overflow(a, b, &result), result);
    case Op::Mul:
      return checked(multiply_wide(a, b, &result), result);
    case Op::FloorDiv:
      return b == 0 ? Value() : Value::of_int(floor_divide(a, b));
    case Op::Mod:
      return b == 0 ? Value() : Value::of_int(floor_remainder(a, b));
    case Op::Pow:
      return integer_power(a, b);
    case Op::BitAnd:
      return Value::of_int(a & b);
    case Op::BitOr:
      return Value::of_int(a | b);
    case Op::BitXor:
      return Value::of_int(a ^ b);
    case Op::Shl:
      return shifted_left(a, b);
    case Op::Shr:
      return shifted_right(a, b);
    case Op::Gcd:
      return Value::of_int(gcd_wide(a, b));
    default:
      return {};
  }
}

/// The remainder has the sign of the divisor, as in Python.
double real_remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

double real_floor_quotient(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

Value real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) return {};
  const bool is_finite = std::isfinite(base) && std::isfinite(exponent);
  if (is_finite && base < 0 && exponent != std::floor(exponent)) return {};  // complex
  const double result = std::pow(base, exponent);
  return is_finite && !std::isfinite(result) ? Value() : Value::of_float(result);
}

Value on_reals(Op op, double a, double b) {
  if (b == 0 && (op == Op::TrueDiv || op == Op::FloorDiv || op == Op::Mod)) return {};
  switch (op) {
    case Op::Add:
      return Value::of_float(a + b);
    case Op::Sub:
      return Value::of_float(a - b);
    case Op::Mul:
      return Value::of_float(a * b);
    case Op::TrueDiv:
      return Value::of_float(a / b);
    case Op::FloorDiv:
      return Value::of_float(real_floor_quotient(a, b));
    case Op::Mod:
      return Value::of_float(real_remainder(a, b));
    case Op::Pow:
      return real_power(a, b);
    default:
      return {};
  }
}

/// -1, 0, 1, or 2 if they are not ordered.
int ordered(const Value& a, const Value& b) {
  if (!a.is_float() && !b.is_float()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  if (!a.is_float()) return compare_exactly(a.integer(), b.real());
  if (!b.is_float()) {
    const int order = compare_exactly(b.integer(), a.real());
    return order == 2 ? 2 : -order;
  }
  const double x = a.real(), y = b.real();
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool holds(Op op, int order) {
  switch (op) {
    case Op::Lt:
      return order == -1;
    case Op::Le:
      return order == -1 || order == 0;
    case Op::Eq:
      return order == 0;
    case Op::Ne:
      return order != 0;
    case Op::Gt:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

Value whole_number(double value) {
  // 2^126 and less have 128 bits; the comparison is false for NaN.
  return std::fabs(value) <= 0x1p126 ? Value::of_int(static_cast<WideInt>(value)) : Value();
}

Value rounded(Op op, const Value& a) {
  if (!a.is_float()) return Value::of_int(a.integer());
  const double x = a.real();
  switch (op) {
    case Op::Floor:
      return whole_number(std::floor(x));
    case Op::Ceil:
      return whole_number(std::ceil(x));
    case Op::Round:
      return whole_number(std::nearbyint(x));
    default:
      return whole_number(std::trunc(x));
  }
}

/// Integers only, as in Python.
Value of_integer(Op op, const Value& a) {
  if (a.is_float()) return {};
  const WideInt value = a.integer();
  if (op == Op::Isqrt) return value < 0 ? Value() : Value::of_int(integer_sqrt(value));
  return Value::of_int(op == Op::BitLength ? bit_length(value) : bit_count(value));
}

Value on_one(Op op, const Value& a) {
  switch (op) {
    case Op::Isqrt:
    case Op::BitLength:
    case Op::BitCount:
      return of_integer(op, a);
    case Op::Not:
      return Value::of_bool(!as_truth(a));
    case Op::ToBool:
      return Value::of_bool(as_truth(a));
    case Op::ToFloat:
      return Value::of_float(as_float(a));
    case Op::Neg:
      return a.is_float() ? Value::of_float(-a.real()) : on_integers(Op::Sub, 0, a.integer());
    case Op::Abs:
      if (a.is_float()) return Value::of_float(std::fabs(a.real()));
      return a.integer() < 0 ? on_integers(Op::Sub, 0, a.integer()) : Value::of_int(a.integer());
    case Op::ToInt:
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc:
    case Op::Round:
      return rounded(op, a);
    default:
      return math_of_one(op, as_float(a));
  }
}

}  // namespace

const char* op_name(Op op) { return kOperatorNames[static_cast<size_t>(op)]; }

std::optional<Op> find_op(std::string_view name) {
  for (size_t i = static_cast<size_t>(Op::Add); i < std::size(kOperatorNames); ++i)
    if (name == kOperatorNames[i]) return static_cast<Op>(i);
  return std::nullopt;
}

Op mirrored(Op op) {
  return op == Op::Lt ? Op::Gt : op == Op::Gt ? Op::Lt : op == Op::Le ? Op::Ge : op == Op::Ge ? Op::Le : op;
}

Op negated(Op op) {
  constexpr Op kOpposites[] = {Op::Ge, Op::Gt, Op::Ne, Op::Eq, Op::Le, Op::Lt};  // of Lt, Le, Eq, Ne, Gt, Ge
  return kOpposites[static_cast<size_t>(op) - static_cast<size_t>(Op::Lt)];
}

double nearest_float(WideInt value) { return static_cast<double>(value); }

Value divide_exactly(WideInt a, WideInt b) {
  if (b == 0) return {};
  constexpr WideInt kExact = WideInt(1) << 53;
  if (a >= -kExact && a <= kExact && b >= -kExact && b <= kExact)
    return Value::of_float(static_cast<double>(a) / static_cast<double>(b));
  const bool is_negative = (a < 0) != (b < 0);
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  if (a >> 64 != 0 || b >> 64 != 0) return {};
  // A quotient of more bits than a float holds; its last bit says whether there is a rest.
  int scale = 0;
  for (; a != 0 && a < (b << 56); ++scale) a <<= 1;
  WideInt quotient = a / b;
  if (a % b != 0) quotient |= 1;
  const double result = std::ldexp(static_cast<double>(quotient), -scale);
  return Value::of_float(is_negative ? -result : result);
}

int compare_exactly(WideInt a, double b) {
  if (std::isnan(b)) return 2;
  if (b >= 0x1p126) return -1;
  if (b <= -0x1p126) return 1;
  const double floor = std::floor(b);
  const auto floor_int = static_cast<WideInt>(floor);
  if (a != floor_int) return a < floor_int ? -1 : 1;
  return floor == b ? 0 : -1;
}

Value compute(Op op, const Value& a, const Value& b) {
  if (!a || (!b && !is_unary(op))) return {};
  if (is_unary(op)) return on_one(op, a);
  if (is_comparison(op)) return Value::of_bool(holds(op, ordered(a, b)));
  if (is_real_function(op)) return math_of_two(op, as_float(a), as_float(b));
  const bool floats = a.is_float() || b.is_float(), truths = a.is_bool() && b.is_bool();
  switch (op) {
    case Op::Min:
      return ordered(b, a) == -1 ? b : a;
    case Op::Max:
      return ordered(b, a) == 1 ? b : a;
    case Op::And:
      return Value::of_bool(as_truth(a) && as_truth(b));
    case Op::Or:
      return Value::of_bool(as_truth(a) || as_truth(b));
    case Op::BitAnd:
    case Op::BitOr:
    case Op::BitXor: {
      if (floats) return {};
      const Value result = on_integers(op, a.integer(), b.integer());
      return truths ? Value::of_bool(result.truth()) : result;
    }
    case Op::TrueDiv:
      return floats ? on_reals(op, as_float(a), as_float(b)) : divide_exactly(a.integer(), b.integer());
    case Op::Pow:
      // A negative exponent of integers gives a float.
      if (!floats && b.integer() >= 0) return integer_power(a.integer(), b.integer());
      return on_reals(op, as_float(a), as_float(b));
    default:
      return floats ? on_reals(op, as_float(a), as_float(b)) : on_integers(op, a.integer(), b.integer());
  }
}

}  // namespace stator::shapes
