#include <algorithm>

#include "core/shapes/env.h"
#include "core/shapes/sum.h"

// Floor division and remainders of integers.
namespace stator::shapes {

/// The quotient if `b` divides `a` term by term; null if not. `b` is not zero.
Ex ShapeEnv::exact_quotient(Ex a, Ex b) {
  Product divisor(this);
  divisor.multiply(b);
  if (!divisor.fits() || divisor.coefficient() == 0) return nullptr;
  Sum terms(this), result(this);
  terms.add(a, 1);
  if (!terms.fits() || terms.constant() % divisor.coefficient() != 0) return nullptr;
  // A product with a sum as a factor is one term; a sum that is the divisor itself is none.
  if (divisor.factors().size() == 1 && divisor.factors()[0].expr->op == Op::Add) {
    Product dividend(this);
    dividend.multiply(a);
    const auto factor = divisor.factors()[0];
    if (!dividend.fits() || dividend.coefficient() % divisor.coefficient() != 0) return nullptr;
    if (dividend.cancel(factor.expr, factor.power)) {
      dividend.set_coefficient(dividend.coefficient() / divisor.coefficient());
      return dividend.build();
    }
  }
  if (!divisor.factors().empty() && terms.constant() != 0) return nullptr;
  result.add(terms.constant() / divisor.coefficient());
  for (const auto& [expr, times] : terms.terms()) {
    if (times % divisor.coefficient() != 0) return nullptr;
    Product term(this);
    term.multiply(expr);
    for (const auto& [factor, power] : divisor.factors())
      if (!term.cancel(factor, power)) return nullptr;
    term.set_coefficient(times / divisor.coefficient());
    Ex part = term.build();
    if (part == nullptr) return nullptr;
    result.add(part, 1);
  }
  return result.build();
}

Ex ShapeEnv::quotient(Ex a, Ex b) {
  if (b->int_constant() == 0) return nullptr;
  if (Ex exact = exact_quotient(a, b)) return settled(exact);
  return floor_quotient(a, b);
}

/// For a positive constant: multiples of it come out of the sum, and common divisors are cancelled.
Ex ShapeEnv::quotient_by(Ex a, int64_t by) {
  if (by == 1) return a;
  Sum result(this), rest(this), all(this);
  all.add(a, 1);
  if (!all.fits()) return nullptr;
  result.add(floor_divide(all.constant(), by));
  rest.add(floor_remainder(all.constant(), by));
  WideInt common = by;
  for (const auto& [expr, times] : all.terms()) {
    if (times % by == 0 && times != 0) {
      result.add(expr, times / by);
    } else {
      rest.add(expr, times);
      common = gcd_wide(common, times);
    }
  }
  if (common > 1 && !rest.terms().empty()) {
    rest.divide_terms(common);
    rest.set_constant(floor_divide(rest.constant(), common));
    by = static_cast<int64_t>(by / common);
  }
  Ex numerator = rest.build();
  if (numerator == nullptr) return nullptr;
  if (by != 1) {
    const Derived now = recent(numerator);
    // With a known remainder the quotient is exact, but it is kept as a quotient: it has no simpler form.
    Ex inner = numerator->op == Op::FloorDiv ? numerator->operands[1] : nullptr;
    const int64_t inner_by = inner != nullptr ? inner->int_constant().value_or(0) : 0;
    int64_t product = 0;
    if (now.range.low >= 0 && now.range.high < by && !now.may_fail) {
      numerator = constant(int64_t{0});
    } else if (inner_by > 0 && !__builtin_mul_overflow(inner_by, by, &product)) {
      numerator = floor_quotient(numerator->operands[0], constant(product));
    } else if (numerator->is_constant()) {
      numerator = constant(Value::of_int(floor_divide(numerator->constant.integer(), by)));
    } else {
      numerator = settled(make_node(Op::FloorDiv, Type::Int, {{numerator, constant(by)}}));
    }
  }
  if (numerator == nullptr) return nullptr;
  result.add(numerator, 1);
  return result.build();
}

Ex ShapeEnv::floor_quotient(Ex a, Ex b) {
  if (auto by = b->int_constant()) {
    if (*by == 0) return nullptr;
    if (*by > 0) return settled(quotient_by(a, *by));
    Ex minus = *by == INT64_MIN ? nullptr : scaled(a, -1);
    if (minus != nullptr) return settled(quotient_by(minus, -*by));
    return settled(make_node(Op::FloorDiv, Type::Int, {{a, b}}));
  }
  if (!recent(b).range.contains(0) && !recent(b).may_fail) {
    if (Ex exact = exact_quotient(a, b)) return settled(exact);
    // Common factors that are not zero cancel.
    Product x(this), y(this), common(this);
    x.multiply(a);
    y.multiply(b);
    if (x.fits() && y.fits() && x.cancel_common(y, &common)) {
      Ex numerator = x.build(), divisor = y.build();
      if (numerator != nullptr && divisor != nullptr) return floor_quotient(numerator, divisor);
    }
  }
  return settled(make_node(Op::FloorDiv, Type::Int, {{a, b}}));
}

/// For a positive constant: coefficients and addend are taken modulo it.
Ex ShapeEnv::remainder_by(Ex a, int64_t by) {
  Sum all(this), rest(this);
  all.add(a, 1);
  if (!all.fits()) return nullptr;
  WideInt common = by;
  const WideInt addend = floor_remainder(all.constant(), by);
  for (const auto& [expr, times] : all.terms()) {
    rest.add(expr, floor_remainder(times, by));
    common = gcd_wide(common, times);
  }
  if (rest.terms().empty()) return constant(Value::of_int(addend));
  // (g*x + r) % (g*c) is g * ((x + r // g) % c) + r % g.
  rest.divide_terms(common);
  rest.add(floor_divide(addend, common));
  by = static_cast<int64_t>(by / common);
  Ex operand = rest.build();
  if (operand == nullptr) return nullptr;
  const Derived now = recent(operand);
  Ex result = operand;
  const bool fits = now.range.low >= 0 && now.range.high < by;
  if (!now.may_fail && now.congruence.modulus % by == 0) {
    result = constant(Value::of_int(floor_remainder(now.congruence.remainder, by)));
  } else if (!fits) {
    result = settled(make_node(Op::Mod, Type::Int, {{operand, constant(by)}}));
  }
  Sum sum(this);
  sum.add(result, common);
  sum.add(floor_remainder(addend, common));
  return sum.build();
}

Ex ShapeEnv::remainder(Ex a, Ex b) {
  if (auto by = b->int_constant()) {
    if (*by == 0) return nullptr;
    if (*by > 0) return settled(remainder_by(a, *by));
    Ex minus = *by == INT64_MIN ? nullptr : scaled(a, -1);
    Ex positive = minus != nullptr ? remainder_by(minus, -*by) : nullptr;
    if (positive != nullptr) return settled(scaled(positive, -1));
    return settled(make_node(Op::Mod, Type::Int, {{a, b}}));
  }
  const Derived divisor = recent(b), number = recent(a);
  if (!divisor.range.contains(0) && !divisor.may_fail && !number.may_fail) {
    if (exact_quotient(a, b) != nullptr) return constant(int64_t{0});
    if (divisor.range.low > 0 && number.range.low >= 0) {
      Ex less = compare_ints(Op::Lt, a, b);
      if (less != nullptr && known(less) == true) return a;
    }
    // (f*x) % (f*y) is f * (x % y).
    Product x(this), y(this), common(this);
    x.multiply(a);
    y.multiply(b);
    if (x.fits() && y.fits() && x.cancel_common(y, &common)) {
      Ex left = x.build(), right = y.build(), factor = common.build();
      Ex rest = left != nullptr && right != nullptr && factor != nullptr ? remainder(left, right) : nullptr;
      if (rest != nullptr) return settled(multiply(factor, rest));
    }
  }
  return settled(make_node(Op::Mod, Type::Int, {{a, b}}));
}

}  // namespace stator::shapes
