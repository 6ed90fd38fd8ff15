#include "core/shapes/facts.h"

#include <algorithm>

namespace stator::shapes {

const FormFact* Facts::find_form(Ex form) const {
  auto found = forms_.find(form);
  return found == forms_.end() ? nullptr : &found->second;
}

std::optional<bool> Facts::find_truth(Ex truth) const {
  auto found = truths_.find(truth);
  return found == truths_.end() ? std::nullopt : std::optional(found->second);
}

Ex Facts::find_replacement(Ex symbol) const {
  auto found = replacements_.find(symbol);
  return found == replacements_.end() ? nullptr : found->second;
}

const std::vector<Ex>* Facts::forms_with(Ex term) const {
  auto found = by_term_.find(term);
  return found == by_term_.end() ? nullptr : &found->second;
}

void Facts::set_form(Ex form, const FormFact& fact) {
  auto [place, is_new] = forms_.try_emplace(form, fact);
  log_.push_back({Change::Kind::Form, form, is_new ? std::nullopt : std::optional(place->second)});
  place->second = fact;
  if (is_new && form->op == Op::Add)
    for (Ex term : *form) by_term_[term].push_back(form);
}

void Facts::set_truth(Ex truth, bool value) {
  if (truths_.try_emplace(truth, value).second) log_.push_back({Change::Kind::Truth, truth, {}});
}

void Facts::set_replacement(Ex symbol, Ex by) {
  if (replacements_.try_emplace(symbol, by).second) log_.push_back({Change::Kind::Replacement, symbol, {}});
}

void Facts::rollback(size_t mark) {
  while (log_.size() > mark) {
    const Change change = log_.back();
    log_.pop_back();
    if (change.kind == Change::Kind::Truth) {
      truths_.erase(change.key);
    } else if (change.kind == Change::Kind::Replacement) {
      replacements_.erase(change.key);
    } else if (change.before) {
      forms_[change.key] = *change.before;
    } else {
      forms_.erase(change.key);
      if (change.key->op != Op::Add) continue;
      for (Ex term : *change.key) {
        auto place = by_term_.find(term);
        place->second.pop_back();  // forms are removed in the reverse order
        if (place->second.empty()) by_term_.erase(place);
      }
    }
  }
}

std::optional<Congruence> intersection(const Congruence& a, const Congruence& b) {
  if (a.modulus == 0 || b.modulus == 0) {
    const Congruence &exact = a.modulus == 0 ? a : b, &other = a.modulus == 0 ? b : a;
    const WideInt difference = WideInt(exact.remainder) - other.remainder;
    const bool agrees = other.modulus == 0 ? difference == 0 : difference % other.modulus == 0;
    return agrees ? std::optional(exact) : std::nullopt;
  }
  const WideInt common = gcd_wide(a.modulus, b.modulus);
  const WideInt difference = WideInt(b.remainder) - a.remainder;
  if (difference % common != 0) return std::nullopt;
  const WideInt modulus = WideInt(a.modulus) / common * b.modulus;
  if (modulus > (WideInt(1) << 20)) return a.modulus >= b.modulus ? a : b;
  // Few steps: the moduli are sizes of vectors and blocks.
  WideInt value = a.remainder;
  while ((value - b.remainder) % b.modulus != 0) value += a.modulus;
  return Congruence{static_cast<int64_t>(modulus), static_cast<int64_t>(floor_remainder(value, modulus))};
}

Range narrowed(Range range, const Congruence& congruence) {
  if (congruence.modulus == 0) return {congruence.remainder, congruence.remainder};
  if (congruence.modulus == 1) return range;
  const auto [modulus, remainder] = congruence;
  if (range.low > -kInfinite) range.low += floor_remainder(remainder - range.low, modulus);
  if (range.high < kInfinite) range.high -= floor_remainder(range.high - remainder, modulus);
  return range;
}

std::optional<FormFact> intersection(const FormFact& a, const FormFact& b) {
  auto congruence = intersection(a.congruence, b.congruence);
  if (!congruence) return std::nullopt;
  Range range{std::max(a.range.low, b.range.low), std::min(a.range.high, b.range.high)};
  if (range.low > range.high) return std::nullopt;
  if (congruence->modulus == 0 && !range.contains(congruence->remainder)) return std::nullopt;
  range = narrowed(range, *congruence);
  if (range.low > range.high) return std::nullopt;
  return FormFact{range, *congruence};
}

}  // namespace stator::shapes
