#include "core/shapes/bounds.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace stator::shapes {
namespace {

Range joined(const Range& a, const Range& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

/// For a divisor of one sign.
Range quotient_range(const Range& x, const Range& y) {
  Range result{kInfinite, -kInfinite};
  for (WideInt a : {x.low, x.high}) {
    for (WideInt b : {y.low, y.high}) {
      WideInt corner = 0;
      if (a <= -kInfinite || a >= kInfinite) {
        corner = (a < 0) == (b < 0) ? kInfinite : -kInfinite;
        // Infinite by infinite may be any number of that sign.
        if (b <= -kInfinite || b >= kInfinite) result = joined(result, {corner < 0 ? -1 : 0, corner < 0 ? -1 : 0});
      } else if (b <= -kInfinite || b >= kInfinite) {
        corner = a == 0 || (a < 0) == (b < 0) ? 0 : -1;
      } else {
        corner = floor_divide(a, b);
      }
      result = joined(result, {corner, corner});
    }
  }
  return result;
}

Range floor_quotient_range(const Range& x, const Range& y) {
  const bool has_positive = y.high >= 1, has_negative = y.low <= -1;
  if (!has_positive && !has_negative) return {};
  const Range positive{std::max<WideInt>(y.low, 1), y.high}, negative{y.low, std::min<WideInt>(y.high, -1)};
  if (!has_negative) return quotient_range(x, positive);
  if (!has_positive) return quotient_range(x, negative);
  return joined(quotient_range(x, positive), quotient_range(x, negative));
}

Range remainder_range(const Range& x, const Range& y) {
  Range result{0, 0};
  if (y.high >= 1) result.high = x.low >= 0 ? std::min(x.high, y.high - 1) : y.high - 1;
  if (y.low <= -1) result.low = x.high <= 0 ? std::max(x.low, y.low + 1) : y.low + 1;
  if (result.high >= kInfinite - 1) result.high = kInfinite;
  if (result.low <= 1 - kInfinite) result.low = -kInfinite;
  return result;
}

Range power_range(const Range& x, int64_t power) {
  Range result{1, 1};
  // A larger power of a number beyond -1, 0 and 1 is infinite for any bound here.
  const int64_t steps = std::min<int64_t>(power, 130);
  for (int64_t i = 0; i < steps; ++i) result = product_of(result, x);
  if (power % 2 == 1 && steps != power) return product_of(result, x);
  if (power % 2 == 1) return result;
  // Even powers are not negative.
  const WideInt least = x.low > 0 ? x.low : x.high < 0 ? -x.high : 0;
  WideInt low = 1;
  for (int64_t i = 0; i < steps; ++i) low = multiply_bounds(low, least);
  return {low, std::max(low, result.high)};
}

/// The bits of numbers up to `high`, all set.
WideInt all_bits(WideInt high) {
  WideInt bits = 0;
  while (bits < high && bits < kInfinite) bits = bits * 2 + 1;
  return bits;
}

Range bits_range(Op op, const Range& x, const Range& y) {
  if (op == Op::BitAnd && (x.low >= 0 || y.low >= 0))
    return {0, x.low < 0 ? y.high : y.low < 0 ? x.high : std::min(x.high, y.high)};
  if (x.low < 0 || y.low < 0) return {};
  const WideInt high = all_bits(std::max(x.high, y.high));
  return {op == Op::BitOr ? std::max(x.low, y.low) : 0, high >= kInfinite ? kInfinite : high};
}

Range shift_range(Op op, const Range& x, const Range& y) {
  if (y.low < 0 || y.high > 100) return x.low >= 0 ? Range{0, op == Op::Shr ? x.high : kInfinite} : Range{};
  const Range factor{WideInt(1) << static_cast<int>(y.low), WideInt(1) << static_cast<int>(y.high)};
  return op == Op::Shl ? product_of(x, factor) : quotient_range(x, factor);
}

int bits_of(WideInt bound) {
  constexpr int kAll = 128;
  return bound >= kInfinite || bound <= -kInfinite ? kAll : bit_length(bound);
}

/// A divisor of a number other than 0 is at most as large; of two zeros, the result is 0.
Range gcd_range(const Range& x, const Range& y) {
  auto largest = [](const Range& of) { return std::max(-of.low, of.high); };
  const bool has_zero_x = x.contains(0), has_zero_y = y.contains(0);
  const WideInt high = !has_zero_x && !has_zero_y ? std::min(largest(x), largest(y))
                       : !has_zero_x              ? largest(x)
                       : !has_zero_y              ? largest(y)
                                                  : std::max(largest(x), largest(y));
  return {has_zero_x && has_zero_y ? 0 : 1, high};
}

/// Of `int(a / b)` and the like: a float is off by less than one part in 2^52.
Range rounded_range(Ex real) {
  if (real->op == Op::ToFloat) real = real->operands[0];
  Range exact;
  if (real->type == Type::Int) {
    exact = real->derived.range;
  } else if (real->op == Op::TrueDiv && real->operands[0]->type == Type::Int && real->operands[1]->type == Type::Int) {
    exact = floor_quotient_range(real->operands[0]->derived.range, real->operands[1]->derived.range);
  } else {
    return {};
  }
  auto margin = [](WideInt bound) { return 2 + (bound < 0 ? -bound : bound) / (WideInt(1) << 50); };
  return {add_bounds(exact.low, exact.low > -kInfinite ? -margin(exact.low) : 0),
          add_bounds(exact.high, exact.high < kInfinite ? margin(exact.high) : 0)};
}

Range range_of_sum(Ex expr) {
  Range range{expr->addend, expr->addend};
  for (uint32_t i = 0; i < expr->count; ++i)
    range = sum_of(range, scaled_range(expr->operands[i]->derived.range, expr->numbers[i]));
  return range;
}

Congruence made_congruence(WideInt modulus, WideInt remainder) {
  if (modulus < 0) modulus = -modulus;
  if (modulus == 0) return fits_int64(remainder) ? Congruence{0, static_cast<int64_t>(remainder)} : Congruence{};
  if (!fits_int64(modulus)) return {};
  return {static_cast<int64_t>(modulus), static_cast<int64_t>(floor_remainder(remainder, modulus))};
}

/// `k * (x % c)` is `k * x` plus a multiple of `k * c`. So `s + -s % 4` is a multiple of 4.
Congruence congruence_without_remainders(Ex expr) {
  constexpr size_t kMost = 64;
  WideInt modulus = 0, remainder = expr->addend;
  std::vector<std::pair<Ex, WideInt>> terms;
  auto add = [&](Ex term, WideInt times) {
    auto found = std::find_if(terms.begin(), terms.end(), [&](const auto& other) { return other.first == term; });
    if (found == terms.end()) found = terms.insert(found, {term, 0});
    found->second += times;
  };
  for (uint32_t i = 0; i < expr->count && terms.size() < kMost; ++i) {
    Ex part = expr->operands[i];
    const WideInt times = expr->numbers[i];
    const auto by = part->op == Op::Mod ? part->operands[1]->int_constant() : std::nullopt;
    if (by) modulus = gcd_wide(modulus, times * *by);
    if (by) part = part->operands[0];
    if (part->op != Op::Add) {
      add(part, times);
      continue;
    }
    for (uint32_t k = 0; k < part->count; ++k) add(part->operands[k], times * part->numbers[k]);
    remainder += times * part->addend;
  }
  if (terms.size() >= kMost) return {};
  for (const auto& [term, times] : terms) {
    // All coefficients count modulo the modulus, so that the products fit.
    const WideInt factor = modulus != 0 ? floor_remainder(times, modulus) : times;
    const Congruence& one = term->derived.congruence;
    if (!fits_int64(factor)) return {};
    modulus = gcd_wide(modulus, factor * one.modulus);
    remainder = floor_remainder(remainder, modulus != 0 ? modulus : 1) + factor * one.remainder;
  }
  return made_congruence(modulus, remainder);
}

Congruence congruence_of_sum(Ex expr) {
  WideInt modulus = 0, remainder = expr->addend;
  for (uint32_t i = 0; i < expr->count; ++i) {
    if (modulus == 1) return {};
    const Congruence& one = expr->operands[i]->derived.congruence;
    modulus = gcd_wide(modulus, WideInt(one.modulus) * expr->numbers[i]);
    remainder += WideInt(one.remainder) * expr->numbers[i];
    if (modulus != 0) remainder = floor_remainder(remainder, modulus);
    if (remainder >= kInfinite || remainder <= -kInfinite) return {};
  }
  return made_congruence(modulus, remainder);
}

Congruence product_of(const Congruence& a, const Congruence& b) {
  const WideInt modulus = gcd_wide(gcd_wide(WideInt(a.modulus) * b.modulus, WideInt(a.modulus) * b.remainder),
                                   WideInt(b.modulus) * a.remainder);
  return made_congruence(modulus, WideInt(a.remainder) * b.remainder);
}

Congruence joined(const Congruence& a, const Congruence& b) {
  const WideInt modulus = gcd_wide(gcd_wide(a.modulus, b.modulus), WideInt(a.remainder) - b.remainder);
  return made_congruence(modulus, a.remainder);
}

}  // namespace

Range sum_of(const Range& a, const Range& b) { return {add_bounds(a.low, b.low), add_bounds(a.high, b.high)}; }

Range scaled_range(const Range& a, WideInt times) {
  const WideInt low = multiply_bounds(a.low, times), high = multiply_bounds(a.high, times);
  return times < 0 ? Range{high, low} : Range{low, high};
}

Range product_of(const Range& a, const Range& b) {
  const WideInt corners[] = {multiply_bounds(a.low, b.low), multiply_bounds(a.low, b.high),
                             multiply_bounds(a.high, b.low), multiply_bounds(a.high, b.high)};
  return {*std::min_element(std::begin(corners), std::end(corners)),
          *std::max_element(std::begin(corners), std::end(corners))};
}

Congruence affine(const Congruence& x, WideInt times, WideInt addend) {
  WideInt modulus = 0, remainder = 0;
  if (!multiply_wide(x.modulus, times, &modulus) || !multiply_wide(x.remainder, times, &remainder)) return {};
  return add_wide(remainder, addend, &remainder) ? made_congruence(modulus, remainder) : Congruence{};
}

Range range_of_operation(Ex expr) {
  auto range = [&](uint32_t i) -> const Range& { return expr->operands[i]->derived.range; };
  Range result;
  switch (expr->op) {
    case Op::Add:
      return range_of_sum(expr);
    case Op::Mul:
      result = {1, 1};
      for (uint32_t i = 0; i < expr->count; ++i) result = product_of(result, power_range(range(i), expr->numbers[i]));
      return result;
    case Op::FloorDiv:
      return floor_quotient_range(range(0), range(1));
    case Op::Mod:
      return remainder_range(range(0), range(1));
    case Op::Pow:
      if (range(0).low >= 1) return {1, kInfinite};
      return range(0).low >= 0 ? Range{0, kInfinite} : Range{};
    case Op::Min:
    case Op::Max:
      result = range(0);
      for (uint32_t i = 1; i < expr->count; ++i) {
        const Range& other = range(i);
        result = expr->op == Op::Min ? Range{std::min(result.low, other.low), std::min(result.high, other.high)}
                                     : Range{std::max(result.low, other.low), std::max(result.high, other.high)};
      }
      return result;
    case Op::Ite:
      return joined(range(1), range(2));
    case Op::Abs:
      if (range(0).low >= 0) return range(0);
      return {range(0).high < 0 ? -range(0).high : 0, std::max(-range(0).low, range(0).high)};
    case Op::BitAnd:
    case Op::BitOr:
    case Op::BitXor:
      return bits_range(expr->op, range(0), range(1));
    case Op::Shl:
    case Op::Shr:
      return shift_range(expr->op, range(0), range(1));
    case Op::Gcd:
      return gcd_range(range(0), range(1));
    case Op::Isqrt:
      return {range(0).low > 0 ? integer_sqrt(range(0).low) : 0,
              range(0).high >= kInfinite ? kInfinite : integer_sqrt(std::max<WideInt>(range(0).high, 0))};
    case Op::BitLength:
    case Op::BitCount:
      result = {range(0).contains(0) ? 0 : 1, std::max(bits_of(range(0).low), bits_of(range(0).high))};
      if (expr->op == Op::BitLength && range(0).low > 0) result.low = bit_length(range(0).low);
      return result;
    case Op::ToInt:
      if (expr->operands[0]->type == Type::Bool) return {0, 1};
      [[fallthrough]];
    default:
      return rounded_range(expr->operands[0]);
  }
}

Congruence congruence_of_operation(Ex expr) {
  auto known = [&](uint32_t i) -> const Congruence& { return expr->operands[i]->derived.congruence; };
  switch (expr->op) {
    case Op::Add: {
      const Congruence usual = congruence_of_sum(expr);
      const bool has_remainder = std::any_of(expr->begin(), expr->end(), [](Ex term) { return term->op == Op::Mod; });
      if (!has_remainder || usual.modulus == 0) return usual;
      const Congruence other = congruence_without_remainders(expr);
      return other.modulus == 0 || other.modulus > usual.modulus ? other : usual;
    }
    case Op::Mul: {
      Congruence result{0, 1};
      for (uint32_t i = 0; i < expr->count; ++i)
        for (int64_t k = 0; k < std::min<int64_t>(expr->numbers[i], 64); ++k) {
          if (k == 63) return {};
          result = product_of(result, known(i));
        }
      return result;
    }
    case Op::FloorDiv: {
      const auto by = expr->operands[1]->int_constant();
      if (!by || *by <= 0 || known(0).modulus % *by != 0) return {};
      return made_congruence(known(0).modulus / *by, floor_divide(known(0).remainder, *by));
    }
    case Op::Mod: {
      const auto by = expr->operands[1]->int_constant();
      if (!by || *by == 0) return {};
      const WideInt common = gcd_wide(known(0).modulus, *by);
      if (known(0).modulus % *by == 0) return made_congruence(0, floor_remainder(known(0).remainder, *by));
      return made_congruence(common, known(0).remainder);
    }
    case Op::Min:
    case Op::Max: {
      Congruence result = known(0);
      for (uint32_t i = 1; i < expr->count; ++i) result = joined(result, known(i));
      return result;
    }
    case Op::Ite:
      return joined(known(1), known(2));
    default:
      return {};
  }
}

std::optional<bool> compare_range(Op op, const Range& range, const Congruence& congruence, WideInt bound) {
  const auto [low, high] = range;
  switch (op) {
    case Op::Le:
      if (high <= bound) return true;
      if (low > bound) return false;
      break;
    case Op::Ge:
      if (low >= bound) return true;
      if (high < bound) return false;
      break;
    default: {
      const auto [modulus, remainder] = congruence;
      const bool excluded = modulus == 0 ? bound != remainder : (bound - remainder) % modulus != 0;
      if (bound < low || bound > high || excluded) return op == Op::Ne;
      if (low == high) return op == Op::Eq;
    }
  }
  return std::nullopt;
}

}  // namespace stator::shapes
