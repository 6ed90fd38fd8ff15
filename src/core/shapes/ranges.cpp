#include "core/shapes/ranges.h"

#include <algorithm>

#include "core/shapes/expression_parts.h"

namespace stator::shapes {
namespace {

Range product(const Range& a, const Range& b) {
  const auto unknown = [](const Range& r) { return r.low == INT64_MIN || r.high == INT64_MAX; };
  const bool positive = a.low >= 0 && b.low >= 0;
  if (unknown(a) || unknown(b)) return positive ? Range{saturated(WideInt(a.low) * b.low), INT64_MAX} : Range{};
  const WideInt corners[] = {WideInt(a.low) * b.low, WideInt(a.low) * b.high, WideInt(a.high) * b.low,
                             WideInt(a.high) * b.high};
  return {saturated(*std::min_element(std::begin(corners), std::end(corners))),
          saturated(*std::max_element(std::begin(corners), std::end(corners)))};
}

}  // namespace

int64_t saturated(WideInt value) { return static_cast<int64_t>(std::clamp<WideInt>(value, INT64_MIN, INT64_MAX)); }

Range range_of(Op op, const Expr& a, const Expr& b) {
  const Range &x = a->range, &y = b ? b->range : a->range;
  switch (op) {
    case Op::Mul:
      return product(x, y);
    case Op::Min:
      return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case Op::Max:
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case Op::FloorDiv:
      if (auto by = int_constant(b); by && *by > 0 && x.low >= 0)
        return {x.low / *by, x.high == INT64_MAX ? INT64_MAX : x.high / *by};
      return {};
    case Op::Mod:
      if (auto by = int_constant(b); by && *by > 0) return {0, *by - 1};
      return {};
    case Op::Abs:
      return x.low >= 0 ? x : Range{0, INT64_MAX};
    case Op::ToInt:
      return a->type == Type::Bool ? Range{0, 1} : Range{};
    default:
      return {};
  }
}

std::optional<bool> compare_by_difference(Op op, const Range& difference) {
  const auto [low, high] = difference;
  switch (op) {
    case Op::Lt:
      if (high < 0) return true;
      if (low >= 0) return false;
      break;
    case Op::Le:
      if (high <= 0) return true;
      if (low > 0) return false;
      break;
    case Op::Gt:
      if (low > 0) return true;
      if (high <= 0) return false;
      break;
    case Op::Ge:
      if (low >= 0) return true;
      if (high < 0) return false;
      break;
    case Op::Eq:
    case Op::Ne:
      if (low > 0 || high < 0) return op == Op::Ne;
      if (low == 0 && high == 0) return op == Op::Eq;
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace stator::shapes
