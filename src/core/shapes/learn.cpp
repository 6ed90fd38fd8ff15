#include <algorithm>

#include "core/shapes/bounds.h"
#include "core/shapes/env.h"
#include "core/shapes/sum.h"

// How truths become facts.
namespace stator::shapes {
namespace {

bool occurs_in(Ex symbol, Ex expr) {
  if (symbol == expr) return true;
  std::vector<Ex> open = {expr};
  std::unordered_map<Ex, bool> seen;
  while (!open.empty()) {
    Ex part = open.back();
    open.pop_back();
    if (part == symbol) return true;
    for (Ex operand : *part)
      if (seen.try_emplace(operand, true).second) open.push_back(operand);
  }
  return false;
}

/// The factor that `number` times it is 1 modulo `modulus`; none if there is none, or if it takes long to find.
std::optional<WideInt> inverse(WideInt number, WideInt modulus) {
  number = floor_remainder(number, modulus);
  if (number == 1) return 1;
  if (modulus > 4096 || gcd_wide(number, modulus) != 1) return std::nullopt;
  for (WideInt factor = 1; factor < modulus; ++factor)
    if (number * factor % modulus == 1) return factor;
  return std::nullopt;
}

}  // namespace

void ShapeEnv::add_fact(Ex truth, bool value) {
  if (truth == nullptr || truth->is_constant()) return;
  if (!value) {
    Ex opposite = negation(truth);
    if (opposite != nullptr && opposite->op != Op::Not) return add_fact(opposite, true);
    facts_.set_truth(truth, false);
    return changed();
  }
  if (truth->op == Op::Not) return add_fact(truth->operands[0], false);
  if (truth->op == Op::And) {
    for (Ex part : *truth) add_fact(part, true);
    return;
  }
  Ex left = truth->count > 0 ? truth->operands[0] : truth;
  const bool is_form = is_comparison(truth->op) && left->type == Type::Int && truth->operands[1]->is_constant() &&
                       truth->operands[1]->type == Type::Int;
  const bool is_kept = !is_form || truth->op == Op::Ne || derived(truth).may_fail;
  if (is_kept) {
    facts_.set_truth(truth, true);
    if (Ex opposite = negation(truth); opposite != nullptr && !opposite->is_constant())
      facts_.set_truth(opposite, false);
  }
  changed();
  if (is_form) add_comparison(truth->op, left, truth->operands[1]->constant.integer());
}

void ShapeEnv::add_form(Ex form, const FormFact& fact) {
  const FormFact* found = facts_.find_form(form);
  const FormFact before = found != nullptr ? *found : FormFact{};
  // No number satisfies both: the code that follows never runs.
  const auto both = intersection(before, fact);
  if (!both || (found != nullptr && *both == before)) return;
  facts_.set_form(form, *both);
  changed();
}

void ShapeEnv::add_comparison(Op op, Ex form, WideInt bound) {
  if (op == Op::Ne) {
    const Range now = derived(form).range;
    if (bound == now.low) return add_comparison(Op::Ge, form, bound + 1);
    if (bound == now.high) return add_comparison(Op::Le, form, bound - 1);
    return;
  }
  if (op == Op::Eq && form->op == Op::FloorDiv && form->operands[1]->is_constant()) {
    add_fact(compare_form(Op::Ge, form, bound), true);
    add_fact(compare_form(Op::Le, form, bound), true);
  }
  const Range range{op == Op::Le ? -kInfinite : bound, op == Op::Ge ? kInfinite : bound};
  add_form(form, {range, {}});
  if ((form->op == Op::Max && op != Op::Ge) || (form->op == Op::Min && op != Op::Le)) {
    for (Ex operand : *form)
      add_fact(compare_ints(form->op == Op::Max ? Op::Le : Op::Ge, operand, constant(Value::of_int(bound))), true);
  }
  if (op != Op::Eq) return;
  if (form->op == Op::Mod) add_remainder(form, bound);
  add_replacement(form, bound);
}

/// `x % m == value` says of the linear form in `x` what its remainder is.
void ShapeEnv::add_remainder(Ex remainder, WideInt value) {
  const auto modulus = remainder->operands[1]->int_constant();
  if (!modulus || *modulus <= 0) return;
  Sum sum(this);
  sum.add(remainder->operands[0], 1);
  WideInt scale = sum.content();
  if (sum.is_negative()) scale = -scale;
  if (scale == 0) return;
  const auto factor = inverse(scale, *modulus);
  if (!factor) return;
  const WideInt rest = floor_remainder((value - floor_remainder(sum.constant(), *modulus)) * *factor, *modulus);
  sum.set_constant(0);
  sum.divide_terms(scale);
  if (Ex form = sum.build()) add_form(form, {{}, {*modulus, static_cast<int64_t>(rest)}});
}

/// Solves `form == value` for a symbol with the coefficient 1 or -1.
bool ShapeEnv::add_replacement(Ex form, WideInt value) {
  Sum sum(this);
  sum.add(form, 1);
  const Sum::Term* best = nullptr;
  for (const Sum::Term& term : sum.terms()) {
    if (term.expr->op != Op::Symbol || (term.times != 1 && term.times != -1)) continue;
    const bool is_alone = std::none_of(sum.terms().begin(), sum.terms().end(), [&](const Sum::Term& other) {
      // A guarded symbol is not replaced by what only a run knows.
      const bool unknown = other.expr->has_unbacked && !term.expr->has_unbacked;
      return other.expr != term.expr && (unknown || occurs_in(term.expr, other.expr));
    });
    if (!is_alone) continue;
    // The newest symbol is replaced: older ones occur in more expressions.
    if (best == nullptr || term.expr->has_unbacked >= best->expr->has_unbacked) best = &term;
  }
  if (best == nullptr) return false;
  Ex symbol = best->expr;
  Sum rest(this);
  for (const auto& [expr, times] : sum.terms())
    if (expr != symbol) rest.add(expr, best->times == 1 ? -times : times);
  rest.add(best->times == 1 ? value : -value);
  Ex by = rest.build();
  if (by == nullptr || derived(by).may_fail) return false;
  replace_symbol(symbol, by);
  return true;
}

void ShapeEnv::replace_symbol(Ex symbol, Ex by) {
  const Derived before = derived(symbol);
  facts_.set_replacement(symbol, by);
  changed();
  // What was known of the symbol, and of forms that have it, is now known of their simplified forms.
  auto restate = [&](Ex form, const Range& range, const Congruence& congruence) {
    Ex now = simplify(form);
    if (now->is_constant()) return;
    if (fits_int64(range.low)) add_fact(compare_ints(Op::Ge, now, constant(Value::of_int(range.low))), true);
    if (fits_int64(range.high)) add_fact(compare_ints(Op::Le, now, constant(Value::of_int(range.high))), true);
    if (congruence.modulus <= 1) return;
    Ex rest = remainder_by(now, congruence.modulus);
    if (rest != nullptr) add_fact(compare_ints(Op::Eq, rest, constant(congruence.remainder)), true);
  };
  restate(symbol, before.range, before.congruence);
  std::vector<std::pair<Ex, FormFact>> forms;
  for (const auto& [form, fact] : facts_.forms())
    if (form != symbol && occurs_in(symbol, form)) forms.emplace_back(form, fact);
  std::vector<std::pair<Ex, bool>> truths;
  for (const auto& [truth, value] : facts_.truths())
    if (occurs_in(symbol, truth)) truths.emplace_back(truth, value);
  auto earlier = [](const auto& a, const auto& b) { return compare_structure(a.first, b.first) < 0; };
  std::sort(forms.begin(), forms.end(), earlier);
  std::sort(truths.begin(), truths.end(), earlier);
  for (const auto& [form, fact] : forms) restate(form, fact.range, fact.congruence);
  for (const auto& [truth, value] : truths) {
    Ex now = simplify(truth);
    if (now != truth) add_fact(now, value);
  }
}

bool ShapeEnv::assume(Ex truth) {
  if (auto answer = known(truth)) return *answer;
  truth = simplify(apply(Op::ToBool, truth));
  if (!truth->has_unbacked) return decide(truth).value_or(true);
  asserts_.push_back({truth, locate(truth)});
  add_fact(truth, true);
  return true;
}

void ShapeEnv::note_check(Ex truth) {
  if (truth != nullptr && truth->has_unbacked) checks_.push_back(truth);
}

void ShapeEnv::learn(Ex truth) {
  if (truth == nullptr || known(truth)) return;
  add_fact(simplify(truth), true);
}

}  // namespace stator::shapes
