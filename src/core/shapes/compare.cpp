#include <algorithm>
#include <cmath>
#include <optional>

#include "core/shapes/bounds.h"
#include "core/shapes/env.h"
#include "core/shapes/sum.h"

// Comparisons. Those of integers become a linear form on the left and a constant on the right.
namespace stator::shapes {
namespace {

/// The factors that all terms of the sum have.
Product common_factors(ShapeEnv* env, const Sum& sum) {
  Product common(env);
  common.multiply(sum.terms()[0].expr);
  for (const auto& [expr, times] : sum.terms()) {
    Product term(env);
    term.multiply(expr);
    for (auto& [factor, power] : common.factors()) {
      int64_t present = 0;
      for (const auto& other : term.factors())
        if (other.expr == factor) present = other.power;
      power = std::min(power, present);
    }
    std::erase_if(common.factors(), [](const auto& factor) { return factor.power == 0; });
  }
  return common;
}

}  // namespace

/// Adds `times * expr` with products distributed over sums, and `c * (x // c)` as `x - x % c`. False if that takes more
/// than `budget` terms.
bool ShapeEnv::expand(Ex expr, WideInt times, int* budget, Sum* sum) {
  if (--*budget < 0) return false;
  if (expr->op == Op::Add && expr->type == Type::Int) {
    WideInt product = 0;
    if (!multiply_wide(expr->addend, times, &product)) return false;
    sum->add(product);
    for (uint32_t i = 0; i < expr->count; ++i)
      if (!multiply_wide(expr->numbers[i], times, &product) || !expand(expr->operands[i], product, budget, sum))
        return false;
    return sum->fits();
  }
  if (expr->op == Op::Mul && expr->type == Type::Int) return expand_product(expr, times, budget, sum);
  if (expr->op == Op::FloorDiv && expr->type == Type::Int) {
    const auto by = expr->operands[1]->int_constant();
    Ex rest = by && *by > 0 && times % *by == 0 ? remainder_by(expr->operands[0], *by) : nullptr;
    if (rest != nullptr)
      return expand(expr->operands[0], times / *by, budget, sum) && expand(rest, -(times / *by), budget, sum);
  }
  sum->add(expr, times);
  return sum->fits();
}

bool ShapeEnv::expand_product(Ex product, WideInt times, int* budget, Sum* sum) {
  std::vector<Sum::Term> made = {{constant(int64_t{1}), times}};
  for (uint32_t i = 0; i < product->count; ++i) {
    for (int64_t power = 0; power < product->numbers[i]; ++power) {
      Sum factor(this), next(this);
      if (!expand(product->operands[i], 1, budget, &factor)) return false;
      for (const auto& [expr, number] : made) {
        WideInt scale = 0;
        if ((*budget -= static_cast<int>(factor.terms().size())) < 0) return false;
        if (!multiply_wide(number, factor.constant(), &scale)) return false;
        if (scale != 0) next.add(expr, scale);
        for (const auto& term : factor.terms()) {
          Product pair(this);
          pair.multiply(expr);
          pair.multiply(term.expr);
          Ex both = pair.term();
          if (both == nullptr || !multiply_wide(number, term.times, &scale)) return false;
          next.add(both, scale);
        }
      }
      if (!next.fits()) return false;
      made = next.terms();
      if (next.constant() != 0) made.push_back({constant(int64_t{1}), next.constant()});
    }
  }
  for (const auto& [expr, number] : made) sum->add(expr, number);
  return sum->fits();
}

Ex ShapeEnv::compare_form(Op op, Ex form, WideInt bound) {
  const Derived now = recent(form);
  if (!now.may_fail)
    if (auto answer = compare_range(op, now.range, now.congruence, bound)) return constant(*answer);
  // A truth as a number: compared with 0 or 1, it is itself.
  if (form->op == Op::ToInt && form->operands[0]->type == Type::Bool && (bound == 0 || bound == 1)) {
    const bool is_one = bound == 1;
    if (op == (is_one ? Op::Ge : Op::Ne) || (is_one && op == Op::Eq)) return form->operands[0];
    if (op == (is_one ? Op::Ne : Op::Le) || (!is_one && op == Op::Eq)) return negation(form->operands[0]);
  }
  const auto by = form->op == Op::FloorDiv ? form->operands[1]->int_constant() : std::nullopt;
  if (by && *by > 0 && (op == Op::Le || op == Op::Ge)) {
    // x // n >= c is x >= n*c, and x // n <= c is x < n*c + n.
    WideInt product = 0;
    Sum sum(this);
    sum.add(form->operands[0], 1);
    if (multiply_wide(op == Op::Ge ? bound : bound + 1, *by, &product) &&
        add_wide(sum.constant(), -product, &product)) {
      sum.set_constant(op == Op::Ge ? product : product + 1);
      return compare_to_zero(op, std::move(sum));
    }
  }
  if (!fits_int64(bound)) return nullptr;
  return make_node(op, Type::Bool, {{form, constant(static_cast<int64_t>(bound))}});
}

/// `difference op 0` for Le, Ge, Eq, Ne.
Ex ShapeEnv::compare_to_zero(Op op, Sum difference) {
  if (!difference.fits()) return nullptr;
  WideInt divisor = difference.content();
  if (difference.terms().empty()) return constant(compute(op, Value::of_int(difference.constant()), Value::of_int(0)));
  // f * x < 0 is x < 0 for a positive f.
  const WideInt addend = difference.constant();
  const bool asks_sign = addend == 0 || (op == Op::Le && addend == 1) || (op == Op::Ge && addend == -1);
  if (asks_sign && difference.terms().size() > 1 && divisor != 0) {
    const Product common = common_factors(this, difference);
    Ex factor = common.term();
    if (factor != nullptr && !recent(factor).may_fail && !recent(factor).range.contains(0)) {
      Sum terms = difference;
      terms.set_constant(0);
      Ex all = terms.build(), rest = all != nullptr ? exact_quotient(all, factor) : nullptr;
      if (rest != nullptr) {
        const bool is_positive = recent(factor).range.low > 0;
        Sum smaller(this);
        smaller.add(rest, 1);
        smaller.add(is_positive ? addend : -addend);
        return compare_to_zero(is_positive ? op : mirrored(op), std::move(smaller));
      }
    }
  }
  if (difference.is_negative()) {
    difference.negate();
    op = mirrored(op);
  }
  if (divisor == 0) divisor = 1;
  WideInt bound = -difference.constant();
  if (op == Op::Le) {
    bound = floor_divide(bound, divisor);
  } else if (op == Op::Ge) {
    bound = ceil_divide(bound, divisor);
  } else if (bound % divisor == 0) {
    bound /= divisor;
  } else {
    difference.set_constant(0);
    Ex sum = difference.build();
    if (sum == nullptr) return nullptr;
    if (!recent(sum).may_fail) return constant(op == Op::Ne);
    // Never equal, if it can be computed.
    if (!fits_int64(bound)) return nullptr;
    return make_node(op, Type::Bool, {{sum, constant(static_cast<int64_t>(bound))}});
  }
  difference.divide_terms(divisor);
  difference.set_constant(0);
  Ex form = difference.build();
  return form == nullptr ? nullptr : compare_form(op, form, bound);
}

/// The least number by which `x // c` must be multiplied for the quotients of the sum to expand; 1 if it is large.
static WideInt common_divisor(const Sum& sum) {
  constexpr WideInt kLarge = 1 << 20;
  WideInt scale = 1;
  for (const auto& [expr, times] : sum.terms()) {
    const auto by = expr->op == Op::FloorDiv ? expr->operands[1]->int_constant() : std::nullopt;
    if (!by || *by <= 0 || *by > kLarge || scale > kLarge) continue;
    const WideInt needed = *by / gcd_wide(*by, times * scale);
    scale *= needed;
  }
  return scale <= kLarge ? scale : 1;
}

Ex ShapeEnv::compare_ints(Op op, Ex a, Ex b) {
  Sum difference(this);
  difference.add(a, 1);
  difference.add(b, -1);
  auto is_compound = [](const Sum::Term& term) {
    Ex expr = term.expr;
    return expr->op == Op::FloorDiv ||
           (expr->op == Op::Mul && std::any_of(expr->begin(), expr->end(), [](Ex f) { return f->op == Op::Add; }));
  };
  auto strict = [&](Sum sum, WideInt scale) {
    if (op == Op::Lt) sum.add(scale);
    if (op == Op::Gt) sum.add(-scale);
    return compare_to_zero(op == Op::Lt ? Op::Le : op == Op::Gt ? Op::Ge : op, std::move(sum));
  };
  Ex plain = strict(difference, 1);
  const bool is_open = plain == nullptr || !plain->is_constant();
  if (!is_open || !std::any_of(difference.terms().begin(), difference.terms().end(), is_compound)) return plain;
  auto expanded_by = [&](WideInt scale) -> std::optional<Sum> {
    constexpr int kBudget = 64;
    int budget = kBudget;
    Sum expanded(this);
    WideInt factor = 0;
    for (const auto& [expr, times] : difference.terms())
      if (!multiply_wide(times, scale, &factor) || !expand(expr, factor, &budget, &expanded)) return std::nullopt;
    if (!multiply_wide(difference.constant(), scale, &factor)) return std::nullopt;
    expanded.add(factor);
    return expanded.fits() ? std::optional(std::move(expanded)) : std::nullopt;
  };
  if (const auto expanded = expanded_by(1)) {
    Ex result = strict(*expanded, 1);
    const bool is_shorter = expanded->terms().size() < difference.terms().size();
    if (result != nullptr && (plain == nullptr || result->is_constant() || is_shorter)) return result;
  }
  // s - s // 2 has the sign of 2*s - (s - s % 2).
  if (const WideInt scale = common_divisor(difference); scale > 1) {
    const auto expanded = expanded_by(scale);
    Ex result = expanded ? strict(*expanded, scale) : nullptr;
    if (result != nullptr && result->is_constant()) return result;
  }
  return plain;
}

/// Any integer compared with an infinity or NaN.
static bool compares_finite(Op op, double b) {
  switch (op) {
    case Op::Lt:
    case Op::Le:
      return b > 0;
    case Op::Gt:
    case Op::Ge:
      return b < 0;
    default:
      return op == Op::Ne;
  }
}

/// Exact: an integer compared with a float constant is compared with an integer.
Ex ShapeEnv::compare_to_float(Op op, Ex a, double b) {
  if (!std::isfinite(b) && !recent(a).may_fail) return constant(compares_finite(op, b));
  if (!std::isfinite(b) || std::fabs(b) > 0x1p62) return nullptr;
  const auto low = static_cast<int64_t>(std::floor(b)), high = static_cast<int64_t>(std::ceil(b));
  switch (op) {
    case Op::Lt:
      return compare_ints(Op::Lt, a, constant(high));
    case Op::Le:
      return compare_ints(Op::Le, a, constant(low));
    case Op::Gt:
      return compare_ints(Op::Gt, a, constant(low));
    case Op::Ge:
      return compare_ints(Op::Ge, a, constant(high));
    default:
      if (low == high) return compare_ints(op, a, constant(low));
      return recent(a).may_fail ? nullptr : constant(op == Op::Ne);
  }
}

Ex ShapeEnv::comparison(Op op, Ex a, Ex b) {
  if (a->type == Type::Bool) a = as_int(a);
  if (b->type == Type::Bool) b = as_int(b);
  if (a->type == Type::Int && b->type == Type::Int) return compare_ints(op, a, b);
  Ex exact = nullptr;
  if (a->type == Type::Int && b->is_constant()) exact = compare_to_float(op, a, b->constant.real());
  if (b->type == Type::Int && a->is_constant()) exact = compare_to_float(mirrored(op), b, a->constant.real());
  if (exact != nullptr) return exact;
  if (op == Op::Gt || op == Op::Ge) {
    std::swap(a, b);
    op = mirrored(op);
  }
  return make_node(op, Type::Bool, {{a, b}});
}

}  // namespace stator::shapes
