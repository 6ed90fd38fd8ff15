#include "core/shapes/linear_sum.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "core/shapes/expression_parts.h"
#include "core/shapes/ranges.h"

namespace stator::shapes {
namespace {

/// Unknown ends stay unknown.
Range sum_of(const Range& a, const Range& b) {
  const bool no_low = a.low == INT64_MIN || b.low == INT64_MIN, no_high = a.high == INT64_MAX || b.high == INT64_MAX;
  return {no_low ? INT64_MIN : saturated(WideInt(a.low) + b.low),
          no_high ? INT64_MAX : saturated(WideInt(a.high) + b.high)};
}

}  // namespace

void LinearSum::add_term(const Expr& term, int64_t times) {
  Term& present = terms_.try_emplace(term->text, Term{term, 0}).first->second;
  fits_ = fits_ && !__builtin_add_overflow(present.times, times, &present.times);
  if (present.times == 0) terms_.erase(term->text);
}

void LinearSum::add(const Expr& expr, int64_t times) {
  const bool is_open = !expr->sealed;
  if (auto value = int_constant(expr)) {
    int64_t scaled = 0;
    fits_ = fits_ && !__builtin_mul_overflow(*value, times, &scaled) &&
            !__builtin_add_overflow(constant_, scaled, &constant_);
  } else if (is_open && expr->op == Op::Add) {
    for (const Expr& part : expr->args) add(part, times);
  } else if (auto factor = is_open && expr->op == Op::Mul ? int_constant(expr->args[0]) : std::nullopt) {
    int64_t scaled = 0;
    fits_ = fits_ && !__builtin_mul_overflow(*factor, times, &scaled);
    if (fits_) add(expr->args[1], scaled);
  } else {
    add_term(expr, times);
  }
}

Range LinearSum::range() const {
  // Beyond 64 bits, and so small that many of them can be added.
  constexpr WideInt kUnknown = WideInt(1) << 100;
  WideInt low = constant_, high = constant_;
  for (const auto& [text, term] : terms_) {
    const Range& range = term.expr->range;
    const WideInt times = term.times < 0 ? -WideInt(term.times) : WideInt(term.times);
    WideInt least = range.low == INT64_MIN ? -kUnknown : range.low * times;
    WideInt most = range.high == INT64_MAX ? kUnknown : range.high * times;
    if (term.times < 0) std::tie(least, most) = std::pair(-most, -least);
    low += std::max(least, -kUnknown);
    high += std::min(most, kUnknown);
  }
  return {saturated(low), saturated(high)};
}

Expr LinearSum::build() const {
  Expr result;
  auto append = [&](const Expr& part) {
    result =
        !result ? part : make_expression(Op::Add, Type::Int, {result, part}, sum_of(result->range, part->range), "add");
  };
  for (const auto& [text, term] : terms_) {
    if (term.times == 1) {
      append(term.expr);
    } else {
      LinearSum alone;
      alone.terms_.emplace(text, term);
      append(make_expression(Op::Mul, Type::Int, {shapes::constant(term.times), term.expr}, alone.range(), "mul"));
    }
  }
  if (constant_ != 0 || !result) append(shapes::constant(constant_));
  return result;
}

std::optional<int64_t> LinearSum::multiple_of(const Expr& expr) const {
  if (constant_ != 0 || terms_.size() != 1 || terms_.begin()->first != expr->text) return std::nullopt;
  return terms_.begin()->second.times;
}

bool LinearSum::divide(int64_t by) {
  bool divides = fits_ && constant_ % by == 0;
  for (const auto& [text, term] : terms_) divides = divides && term.times % by == 0;
  if (!divides) return false;
  constant_ /= by;
  for (auto& [text, term] : terms_) term.times /= by;
  return true;
}

}  // namespace stator::shapes
