#include "core/shapes/program.h"

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <utility>

#include "core/shapes/traversal.h"

namespace stator::shapes {

std::optional<uint32_t> Program::add(Ex expr, const InputOf& input_of) {
  bool has_inputs = true;
  post_order(
      expr, [&](Ex part) { return places_.contains(part); },
      [&](Ex part) {
        Step step{part->op,    part->type,   static_cast<uint32_t>(operands_.size()),
                  part->count, part->addend, part->constant};
        if (part->op == Op::Symbol) {
          const auto input = input_of(part);
          has_inputs = has_inputs && input;
          step.first = input.value_or(0);
        }
        for (uint32_t i = 0; i < part->count; ++i) {
          operands_.push_back(places_.at(part->operands[i]));
          numbers_.push_back(part->numbers != nullptr ? part->numbers[i] : 0);
        }
        places_[part] = static_cast<uint32_t>(steps_.size());
        steps_.push_back(step);
      });
  return has_inputs ? std::optional(places_.at(expr)) : std::nullopt;
}

Value Program::result(const Step& step, const int64_t* inputs, const Value* values) const {
  auto operand = [&](uint32_t i) -> const Value& { return values[operands_[step.first + i]]; };
  switch (step.op) {
    case Op::Constant:
      return step.constant;
    case Op::Symbol:
      if (step.type == Type::Float) return Value::of_float(std::bit_cast<double>(inputs[step.first]));
      return step.type == Type::Int ? Value::of_int(inputs[step.first]) : Value::of_bool(inputs[step.first] != 0);
    case Op::Ite:
      if (!operand(0) || !operand(1) || !operand(2)) return {};
      return operand(0).truth() ? operand(1) : operand(2);
    default:
      break;
  }
  if (step.type == Type::Int && (step.op == Op::Add || step.op == Op::Mul)) {
    Value made = Value::of_int(step.op == Op::Add ? step.addend : 1);
    const Op inner = step.op == Op::Add ? Op::Mul : Op::Pow;
    for (uint32_t i = 0; i < step.count; ++i)
      made = compute(step.op, made, compute(inner, operand(i), Value::of_int(numbers_[step.first + i])));
    return made;
  }
  Value made = operand(0);
  if (step.count == 1) return compute(step.op, made, {});
  for (uint32_t i = 1; i < step.count; ++i) made = compute(step.op, made, operand(i));
  return made;
}

void Program::run(const int64_t* inputs, Value* values) const {
  for (size_t i = 0; i < steps_.size(); ++i) values[i] = result(steps_[i], inputs, values);
}

bool GuardProgram::add_terms(Ex form, Row* row, const InputOf& input_of) {
  std::vector<uint32_t> inputs;
  auto add_factor = [&](Ex expr, int64_t power) {
    const auto input = expr->op == Op::Symbol && expr->type == Type::Int ? input_of(expr) : std::nullopt;
    constexpr int64_t kMost = 8;
    if (!input || power > kMost) return false;
    inputs.insert(inputs.end(), static_cast<size_t>(power), *input);
    return true;
  };
  auto add_term = [&](Ex expr, int64_t times) {
    inputs.clear();
    bool fits = true;
    if (expr->op == Op::Mul) {
      for (uint32_t i = 0; i < expr->count; ++i) fits = fits && add_factor(expr->operands[i], expr->numbers[i]);
    } else {
      fits = add_factor(expr, 1);
    }
    if (!fits) return false;
    terms_.push_back(
        {times, inputs[0], static_cast<uint32_t>(factors_.size()), static_cast<uint32_t>(inputs.size() - 1)});
    factors_.insert(factors_.end(), inputs.begin() + 1, inputs.end());
    return true;
  };
  row->first = static_cast<uint32_t>(terms_.size());
  bool fits = true;
  if (form->op == Op::Add) {
    row->addend = form->addend;
    for (uint32_t i = 0; i < form->count; ++i) fits = fits && add_term(form->operands[i], form->numbers[i]);
  } else {
    fits = add_term(form, 1);
  }
  row->count = static_cast<uint32_t>(terms_.size()) - row->first;
  return fits;
}

bool GuardProgram::add_bound(Ex truth, int64_t bound, int guard, const InputOf& input_of) {
  Ex symbol = truth->operands[0];
  const auto input = symbol->op == Op::Symbol && truth->op != Op::Ne ? input_of(symbol) : std::nullopt;
  if (!input) return false;
  const int64_t low = truth->op == Op::Le ? INT64_MIN : bound, high = truth->op == Op::Ge ? INT64_MAX : bound;
  for (Bound& other : bounds_) {
    if (other.input != *input) continue;
    if (low > other.low) std::tie(other.low, other.guard) = std::pair(low, guard);
    if (high < other.high) std::tie(other.high, other.high_guard) = std::pair(high, guard);
    return true;
  }
  bounds_.push_back({low, high, *input, guard, guard});
  return true;
}

/// False if the truth has no such form.
bool GuardProgram::add_row(Ex truth, int guard, const InputOf& input_of) {
  if (!is_comparison(truth->op) || truth->operands[0]->type != Type::Int || !truth->operands[1]->is_constant())
    return false;
  const auto bound = truth->operands[1]->int_constant();
  if (!bound) return false;
  if (add_bound(truth, *bound, guard, input_of)) return true;
  Ex form = truth->operands[0];
  Row row{truth->op == Op::Le ? INT64_MIN : *bound,
          truth->op == Op::Ge ? INT64_MAX : *bound,
          0,
          0,
          0,
          0,
          guard,
          guard,
          truth->op == Op::Ne};
  if (form->op == Op::Mod) {
    const auto modulus = form->operands[1]->int_constant();
    if (!modulus || *modulus <= 0) return false;
    row.modulus = *modulus;
    form = form->operands[0];
  }
  const size_t terms = terms_.size(), factors = factors_.size();
  if (!add_terms(form, &row, input_of)) {
    terms_.resize(terms);
    factors_.resize(factors);
    return false;
  }
  // Bounds of one form share a row.
  for (Row& other : rows_) {
    const bool same = !row.excluded && !other.excluded && other.guard >= 0 && other.modulus == row.modulus &&
                      other.addend == row.addend && other.count == row.count &&
                      std::equal(terms_.begin() + row.first, terms_.begin() + row.first + row.count,
                                 terms_.begin() + other.first, [&](const Term& a, const Term& b) {
                                   return a.times == b.times && a.input == b.input && a.count == b.count &&
                                          std::equal(factors_.begin() + a.first, factors_.begin() + a.first + a.count,
                                                     factors_.begin() + b.first);
                                 });
    if (!same || std::max(other.low, row.low) > std::min(other.high, row.high)) continue;
    if (row.low > other.low) std::tie(other.low, other.guard) = std::pair(row.low, guard);
    if (row.high < other.high) std::tie(other.high, other.high_guard) = std::pair(row.high, guard);
    terms_.resize(terms);
    factors_.resize(factors);
    return true;
  }
  rows_.push_back(row);
  return true;
}

GuardProgram GuardProgram::compile(ShapeEnv& env, std::span<const Guard> guards) {
  GuardProgram made;
  std::unordered_map<Ex, uint32_t> places;
  for (uint32_t i = 0; i < env.inputs().size(); ++i) {
    const auto [first, is_new] = places.try_emplace(env.inputs()[i].symbol, i);
    if (is_new) continue;
    Row row{0, 0, 0, 0, static_cast<uint32_t>(made.terms_.size()), 2, kShared, kShared, false};
    made.terms_.push_back({1, i, 0, 0});
    made.terms_.push_back({-1, first->second, 0, 0});
    made.rows_.push_back(row);
  }
  const InputOf input_of = [&](Ex symbol) -> std::optional<uint32_t> {
    auto found = places.find(symbol);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  };
  for (size_t i = 0; i < guards.size(); ++i) {
    const int guard = static_cast<int>(i);
    if (made.add_row(guards[i].truth, guard, input_of)) continue;
    const auto place = made.program_.add(guards[i].truth, input_of);
    // What no input gives is never true.
    made.truths_.emplace_back(place.value_or(UINT32_MAX), guard);
  }
  return made;
}

int GuardProgram::check_wide(const Row& row, const int64_t* inputs) const {
  WideInt sum = row.addend;
  for (uint32_t i = row.first; i < row.first + row.count; ++i) {
    const Term& term = terms_[i];
    WideInt product = WideInt(term.times) * inputs[term.input];
    for (uint32_t k = term.first; k < term.first + term.count; ++k)
      if (!multiply_wide(product, inputs[factors_[k]], &product)) return row.guard;
    if (!add_wide(sum, product, &sum)) return row.guard;
  }
  if (row.modulus != 0) sum = floor_remainder(sum, row.modulus);
  // The ends of 64 bits mean that there is no bound.
  const bool below = row.low != INT64_MIN && sum < row.low, above = row.high != INT64_MAX && sum > row.high;
  if (row.excluded) return below || above ? kNone : row.guard;
  return below ? row.guard : above ? row.high_guard : kNone;
}

int GuardProgram::check(const Row& row, const int64_t* inputs) const {
  int64_t sum = row.addend;
  bool overflows = false;
  const Term *term = terms_.data() + row.first, *end = term + row.count;
  for (; term != end; ++term) {
    int64_t product = 0;
    overflows |= __builtin_mul_overflow(term->times, inputs[term->input], &product);
    const uint32_t *factor = factors_.data() + term->first, *last = factor + term->count;
    for (; factor != last; ++factor) overflows |= __builtin_mul_overflow(product, inputs[*factor], &product);
    overflows |= __builtin_add_overflow(sum, product, &sum);
  }
  if (overflows) [[unlikely]]
    return check_wide(row, inputs);
  if (row.modulus != 0) {
    sum %= row.modulus;
    if (sum < 0) sum += row.modulus;
  }
  if ((sum >= row.low && sum <= row.high) != row.excluded) [[likely]]
    return kNone;
  return row.excluded || sum < row.low ? row.guard : row.high_guard;
}

int GuardProgram::first_failure(const int64_t* inputs) const {
  for (const Bound& bound : bounds_) {
    const int64_t value = inputs[bound.input];
    if (value < bound.low || value > bound.high) [[unlikely]]
      return value < bound.low ? bound.guard : bound.high_guard;
  }
  for (const Row& row : rows_)
    if (const int guard = check(row, inputs); guard != kNone) return guard;
  if (truths_.empty()) return kNone;
  constexpr size_t kSmall = 64;
  std::array<Value, kSmall> small;
  std::unique_ptr<Value[]> large;
  if (program_.size() > kSmall) large = std::make_unique<Value[]>(program_.size());
  Value* values = large ? large.get() : small.data();
  program_.run(inputs, values);
  for (const auto& [place, guard] : truths_)
    if (place == UINT32_MAX || !values[place] || !values[place].truth()) return guard;
  return kNone;
}

}  // namespace stator::shapes
