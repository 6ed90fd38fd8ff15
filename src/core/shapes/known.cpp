#include <algorithm>

#include "core/shapes/bounds.h"
#include "core/shapes/env.h"
#include "core/shapes/sum.h"

// Answers that follow from facts.
namespace stator::shapes {
namespace {

/// A comparison of a linear form with a constant.
bool compares_form(Ex truth) {
  return is_comparison(truth->op) && truth->operands[0]->type == Type::Int && truth->operands[1]->is_constant() &&
         truth->operands[1]->type == Type::Int;
}

WideInt bound_of(Ex truth) { return truth->operands[1]->constant.integer(); }

}  // namespace

/// The value of an `and` or `or`. `known` must give answers only for operands that do not fail.
template <class F>
std::optional<bool> ShapeEnv::known_logic(Ex truth, const F& known) {
  const bool ends = truth->op == Op::Or;  // one operand of this value decides the result, unless another one may fail
  const bool may_fail = recent(truth).may_fail;
  bool all = true, decided = false;
  for (Ex operand : *truth) {
    auto one = known(operand);
    if (one == ends && !may_fail) return ends;
    decided = decided || one == ends;
    all = all && one;
  }
  return all ? std::optional(decided ? ends : !ends) : std::nullopt;
}

std::optional<bool> ShapeEnv::known_by_ranges(Ex truth) {
  if (truth->is_constant()) return truth->constant.truth();
  if (auto found = facts_.find_truth(truth)) return found;
  if (truth->op == Op::Not) {
    auto inner = known_by_ranges(truth->operands[0]);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  if (truth->op == Op::And || truth->op == Op::Or)
    return known_logic(truth, [&](Ex operand) { return known_by_ranges(operand); });
  if (!compares_form(truth) || recent(truth).may_fail) return std::nullopt;
  const Derived& now = recent(truth->operands[0]);
  return compare_range(truth->op, now.range, now.congruence, bound_of(truth));
}

/// The interval of a form that follows from one other form and what is left.
Range ShapeEnv::range_by_forms(Ex form) {
  constexpr uint32_t kMaxTerms = 32, kTriedTerms = 3;
  constexpr size_t kTriedForms = 6;
  Range range = derived(form).range;
  auto narrow = [&](const Range& other) { range = {std::max(range.low, other.low), std::min(range.high, other.high)}; };
  Sum terms(this);
  terms.add(form, 1);
  if (terms.terms().size() > kMaxTerms) return range;
  uint32_t tried = 0;
  for (const auto& [term, times] : terms.terms()) {
    if (++tried > kTriedTerms) break;
    const std::vector<Ex>* found = facts_.forms_with(term);
    if (found == nullptr) continue;
    const std::vector<Ex> forms(found->end() - static_cast<ptrdiff_t>(std::min(found->size(), kTriedForms)),
                                found->end());
    for (Ex other : forms) {
      if (other == form || other->count > kMaxTerms) continue;
      const auto place = std::find(other->begin(), other->end(), term) - other->begin();
      const int64_t number = other->numbers[place];
      if (number == 0 || times % number != 0) continue;
      Sum rest(this);
      rest.add(form, 1);
      rest.add(other, -(times / number));
      Ex left = rest.build();
      if (left == nullptr) continue;
      narrow(sum_of(scaled_range(derived(other).range, times / number), derived(left).range));
    }
  }
  return range;
}

std::optional<bool> ShapeEnv::known_by_forms(Ex truth) {
  if (auto answer = known_by_ranges(truth)) return answer;
  if (truth->op == Op::And || truth->op == Op::Or)
    return known_logic(truth, [&](Ex operand) { return known_by_forms(operand); });
  if (!facts_.has_sums() || !compares_form(truth) || derived(truth).may_fail) return std::nullopt;
  Ex form = truth->operands[0];
  return compare_range(truth->op, range_by_forms(form), derived(form).congruence, bound_of(truth));
}

std::optional<bool> ShapeEnv::known(Ex truth) {
  if (truth->type != Type::Bool) truth = apply(Op::ToBool, truth);
  if (truth == nullptr) return std::nullopt;
  if (auto answer = known_by_ranges(truth)) return answer;
  // Facts are stated of expressions as they were then: the question is asked as it is, too.
  derived(truth);
  if (auto answer = known_by_forms(truth)) return answer;
  Ex simple = simplify(truth);
  if (simple == truth) return std::nullopt;
  derived(simple);
  return known_by_forms(simple);
}

std::optional<bool> ShapeEnv::guard_size_oblivious(Ex truth) {
  if (auto answer = known(truth)) return answer;
  if (!truth->has_unbacked) return decide(truth);
  is_oblivious_ = true;
  ++generation_;
  changed();
  auto answer = known(truth);
  is_oblivious_ = false;
  ++generation_;
  changed();
  return answer;
}

std::optional<bool> ShapeEnv::decide(Ex truth) {
  if (truth->type != Type::Bool) truth = apply(Op::ToBool, truth);
  if (truth == nullptr) return std::nullopt;
  if (auto answer = known(truth)) return answer;
  Ex asked = truth;
  truth = simplify(truth);
  if (!truth->hint) return std::nullopt;
  const bool value = truth->hint.truth();
  Ex guard = value ? truth : negation(truth);
  if (guard == nullptr) return std::nullopt;
  if (is_frozen_) throw FrozenError("the shapes are frozen; a guard would be needed: " + to_python(guard));
  const Location where = locate(guard);
  if (guard->op == Op::And) {
    for (Ex part : *guard)
      if (!known(part)) guards_.push_back({part, where});
  } else {
    guards_.push_back({guard, where});
  }
  add_fact(guard, true);
  // Later facts may simplify the guard and the question differently.
  if (asked != truth || guard->op == Op::And) facts_.set_truth(asked, value);
  return value;
}

Value ShapeEnv::specialize(Ex expr) {
  if (expr->is_constant()) return expr->constant;
  expr = simplify(expr);
  if (expr->is_constant() || !expr->hint) return expr->hint;
  if (expr->type == Type::Bool) {
    auto answer = decide(expr);
    return answer ? Value::of_bool(*answer) : Value();
  }
  // Equality does not distinguish the zeros, and NaN is equal to nothing.
  if (expr->hint.is_float() && !(expr->hint.real() < 0 || expr->hint.real() > 0)) return {};
  Ex number = constant(expr->hint);
  Ex truth = number != nullptr ? comparison(Op::Eq, expr, number) : nullptr;
  const size_t count = guards_.size();
  if (truth == nullptr || decide(truth) != true) return {};
  for (size_t i = count; i < guards_.size(); ++i) guards_[i].is_value = true;
  return expr->hint;
}

}  // namespace stator::shapes
