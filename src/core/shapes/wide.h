#pragma once

#include <bit>
#include <cstdint>
#include <numeric>
#include <optional>

/// Integers of 128 bits, in which expressions are evaluated and bounds are computed.
namespace stator::shapes {

using WideInt = __int128;

/// A bound of this magnitude or more means that there is none.
inline constexpr WideInt kInfinite = WideInt(1) << 126;

inline bool fits_int64(WideInt value) { return value >= INT64_MIN && value <= INT64_MAX; }

/// False if the result does not fit 128 bits.
inline bool add_wide(WideInt a, WideInt b, WideInt* result) { return !__builtin_add_overflow(a, b, result); }
inline bool multiply_wide(WideInt a, WideInt b, WideInt* result) { return !__builtin_mul_overflow(a, b, result); }

inline WideInt clamped(WideInt value) {
  return value > kInfinite ? kInfinite : value < -kInfinite ? -kInfinite : value;
}

/// Arithmetic on bounds: what is infinite stays so.
inline WideInt add_bounds(WideInt a, WideInt b) {
  if (a <= -kInfinite || a >= kInfinite) return a;
  if (b <= -kInfinite || b >= kInfinite) return b;
  return clamped(a + b);
}
inline WideInt multiply_bounds(WideInt a, WideInt b) {
  // Long sums ask this for each term: 128-bit products are slow to check.
  if (b == 1) return a;
  if (fits_int64(a) && fits_int64(b)) return a * b;
  WideInt result = 0;
  if (multiply_wide(a, b, &result)) return clamped(result);
  return (a < 0) == (b < 0) ? kInfinite : -kInfinite;
}

/// Rounded towards minus infinity; `b` is not zero.
inline WideInt floor_divide(WideInt a, WideInt b) {
  const WideInt quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
/// Has the sign of `b`, which is not zero.
inline WideInt floor_remainder(WideInt a, WideInt b) {
  const WideInt rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline WideInt ceil_divide(WideInt a, WideInt b) { return -floor_divide(-a, b); }

/// Never negative; gcd(0, b) is |b|.
inline WideInt gcd_wide(WideInt a, WideInt b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    const WideInt rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

inline unsigned __int128 magnitude(WideInt value) {
  const auto bits = static_cast<unsigned __int128>(value);
  return value < 0 ? -bits : bits;
}
inline int bit_length(WideInt value) {
  const unsigned __int128 bits = magnitude(value);
  const auto high = static_cast<uint64_t>(bits >> 64);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<uint64_t>(bits));
}
inline int bit_count(WideInt value) {
  const unsigned __int128 bits = magnitude(value);
  return std::popcount(static_cast<uint64_t>(bits >> 64)) + std::popcount(static_cast<uint64_t>(bits));
}
/// The greatest integer whose square is not greater than `value`, which is not negative.
inline WideInt integer_sqrt(WideInt value) {
  WideInt root = 0;
  for (int bit = bit_length(value) / 2; bit >= 0; --bit) {
    const WideInt larger = root + (WideInt(1) << bit);
    if (WideInt square = 0; multiply_wide(larger, larger, &square) && square <= value) root = larger;
  }
  return root;
}

}  // namespace stator::shapes
