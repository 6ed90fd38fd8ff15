#include "core/shapes/sum.h"

#include <algorithm>
#include <utility>

namespace stator::shapes {

void Sum::add(WideInt constant) { fits_ = fits_ && add_wide(constant_, constant, &constant_); }

void Sum::add(Ex expr, WideInt times) {
  if (expr->is_constant()) {
    WideInt product = 0;
    fits_ = fits_ && multiply_wide(expr->constant.integer(), times, &product);
    return add(product);
  }
  if (expr->op != Op::Add) return add_term(expr, times);
  WideInt product = 0;
  fits_ = fits_ && multiply_wide(expr->addend, times, &product);
  add(product);
  if (expr->count == 1) {
    fits_ = fits_ && multiply_wide(expr->numbers[0], times, &product);
    return add_term(expr->operands[0], product);
  }
  merge(expr->operands, expr->numbers, expr->count, times);
}

/// A part that may fail stays, multiplied by zero.
bool Sum::is_dropped(const Term& term) { return term.times == 0 && !term.expr->env->recent(term.expr).may_fail; }

void Sum::add_term(Ex expr, WideInt times) {
  auto place = std::lower_bound(terms_.begin(), terms_.end(), expr,
                                [](const Term& term, Ex by) { return compare_structure(term.expr, by) < 0; });
  if (place == terms_.end() || place->expr != expr) place = terms_.insert(place, {expr, 0});
  fits_ = fits_ && add_wide(place->times, times, &place->times);
  if (place->times != 0) return;
  if (is_dropped(*place)) {
    terms_.erase(place);
  } else if (expr->op == Op::Mul) {
    // Only the factors that may fail matter.
    terms_.erase(place);
    for (Ex factor : *expr) add(factor, 0);
  }
}

void Sum::merge(const Ex* exprs, const int64_t* numbers, size_t count, WideInt times) {
  std::vector<Term> merged;
  merged.reserve(terms_.size() + count);
  std::vector<Ex> zeros;
  auto next = terms_.begin();
  for (size_t i = 0; i < count; ++i) {
    while (next != terms_.end() && next->expr != exprs[i] && compare_structure(next->expr, exprs[i]) < 0)
      merged.push_back(*next++);
    Term term{exprs[i], 0};
    fits_ = fits_ && multiply_wide(numbers[i], times, &term.times);
    if (next != terms_.end() && next->expr == exprs[i]) {
      fits_ = fits_ && add_wide(term.times, next->times, &term.times);
      ++next;
    }
    if (term.times == 0) {
      zeros.push_back(term.expr);
    } else {
      merged.push_back(term);
    }
  }
  merged.insert(merged.end(), next, terms_.end());
  terms_ = std::move(merged);
  for (Ex expr : zeros) add_term(expr, 0);
}

WideInt Sum::content() const {
  WideInt divisor = 0;
  for (const Term& term : terms_) divisor = gcd_wide(divisor, term.times);
  return divisor;
}

bool Sum::is_negative() const {
  for (const Term& term : terms_)
    if (term.times != 0) return term.times < 0;
  return false;
}

void Sum::negate() {
  for (Term& term : terms_) term.times = -term.times;
  constant_ = -constant_;
}

void Sum::divide_terms(WideInt by) {
  for (Term& term : terms_) term.times /= by;
}

Range Sum::range() const {
  Range range{constant_, constant_};
  for (const auto& [expr, times] : terms_) {
    const Range& one = env_->recent(expr).range;
    WideInt low = multiply_bounds(one.low, times), high = multiply_bounds(one.high, times);
    if (times < 0) std::swap(low, high);
    range = {add_bounds(range.low, low), add_bounds(range.high, high)};
  }
  return range;
}

Ex Sum::build() const {
  if (!fits_ || !fits_int64(constant_)) return nullptr;
  for (const Term& term : terms_)
    if (!fits_int64(term.times)) return nullptr;
  if (terms_.empty()) return env_->constant(static_cast<int64_t>(constant_));
  if (terms_.size() == 1 && terms_[0].times == 1 && constant_ == 0) return terms_[0].expr;
  std::vector<Ex> exprs(terms_.size());
  std::vector<int64_t> numbers(terms_.size());
  for (size_t i = 0; i < terms_.size(); ++i) {
    exprs[i] = terms_[i].expr;
    numbers[i] = static_cast<int64_t>(terms_[i].times);
  }
  Expression key;
  key.op = Op::Add;
  key.count = static_cast<uint32_t>(exprs.size());
  key.operands = exprs.data();
  key.numbers = numbers.data();
  key.addend = static_cast<int64_t>(constant_);
  return env_->intern(key);
}

void Product::add_factor(Ex expr, int64_t power) {
  auto place = std::lower_bound(factors_.begin(), factors_.end(), expr,
                                [](const Factor& factor, Ex by) { return compare_structure(factor.expr, by) < 0; });
  if (place == factors_.end() || place->expr != expr) place = factors_.insert(place, {expr, 0});
  fits_ = fits_ && !__builtin_add_overflow(place->power, power, &place->power);
}

void Product::multiply(Ex expr, int64_t power) {
  auto times = [&](WideInt number) {
    for (int64_t i = 0; i < power && fits_ && number != 1; ++i)
      fits_ = multiply_wide(coefficient_, number, &coefficient_);
  };
  if (expr->is_constant()) return times(expr->constant.integer());
  if (expr->op == Op::Mul) {
    for (uint32_t i = 0; i < expr->count; ++i) add_factor(expr->operands[i], expr->numbers[i] * power);
    return;
  }
  if (expr->op != Op::Add) return add_factor(expr, power);
  if (expr->count == 1 && expr->addend == 0) {
    times(expr->numbers[0]);
    return multiply(expr->operands[0], power);
  }
  // 2*a - 4 is 2 * (a - 2): the factor is found again in other products.
  Sum sum(env_);
  sum.add(expr, 1);
  WideInt content = gcd_wide(sum.content(), sum.constant());
  if (content == 0) content = 1;
  if (sum.is_negative()) content = -content;
  if (content == 1) return add_factor(expr, power);
  sum.divide_terms(content);
  sum.set_constant(sum.constant() / content);
  times(content);
  Ex part = sum.build();
  fits_ = fits_ && part != nullptr;
  if (part != nullptr) multiply(part, power);
}

bool Product::cancel(Ex expr, int64_t power) {
  auto place =
      std::find_if(factors_.begin(), factors_.end(), [&](const Factor& factor) { return factor.expr == expr; });
  if (place == factors_.end() || place->power < power) return false;
  place->power -= power;
  if (place->power == 0) factors_.erase(place);
  return true;
}

bool Product::cancel_common(Product& other, Product* common) {
  bool cancels = false;
  const std::vector<Factor> factors = other.factors_;
  for (const auto& [factor, power] : factors) {
    auto own = std::find_if(factors_.begin(), factors_.end(), [&](const Factor& f) { return f.expr == factor; });
    if (own == factors_.end()) continue;
    const Derived& known = env_->recent(factor);
    if (known.range.contains(0) || known.may_fail) continue;
    const int64_t both = std::min(power, own->power);
    cancel(factor, both);
    other.cancel(factor, both);
    common->add_factor(factor, both);
    cancels = true;
  }
  const WideInt divisor = gcd_wide(coefficient_, other.coefficient_);
  if (divisor <= 1) return cancels;
  coefficient_ /= divisor;
  other.coefficient_ /= divisor;
  common->coefficient_ *= divisor;
  return true;
}

Ex Product::term() const {
  if (factors_.empty()) return nullptr;
  if (factors_.size() == 1 && factors_[0].power == 1) return factors_[0].expr;
  std::vector<Ex> exprs(factors_.size());
  std::vector<int64_t> powers(factors_.size());
  for (size_t i = 0; i < factors_.size(); ++i) {
    exprs[i] = factors_[i].expr;
    powers[i] = factors_[i].power;
  }
  Expression key;
  key.op = Op::Mul;
  key.count = static_cast<uint32_t>(exprs.size());
  key.operands = exprs.data();
  key.numbers = powers.data();
  return env_->intern(key);
}

Ex Product::build() const {
  if (!fits_) return nullptr;
  Sum sum(env_);
  if (factors_.empty()) {
    sum.add(coefficient_);
  } else {
    sum.add(term(), coefficient_);
  }
  return sum.build();
}

}  // namespace stator::shapes
