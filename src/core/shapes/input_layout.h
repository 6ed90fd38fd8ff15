#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/export.h"

namespace stator::shapes {

/// Which sizes and strides of an input tensor are symbolic. All others are constants of the graph.
struct STATOR_API InputLayout {
  /// The sizes that the user allows.
  struct Bounds {
    int64_t low = INT64_MIN, high = INT64_MAX;
    bool operator==(const Bounds&) const = default;
  };

  static constexpr int8_t kConstant = -1, kOwnSymbol = -2;

  std::vector<bool> sizes;  // by dimension: the size is a symbol
  std::vector<int8_t>
      strides;                 // by dimension: the stride is the size times the stride of this one, or one of the above
  std::vector<bool> unbacked;  // by dimension: the symbol is unbacked; empty: none is
  std::vector<Bounds> bounds;  // by dimension; empty: none has bounds

  bool is_static() const;
  bool operator==(const InputLayout&) const = default;
};

/// The layout of a tensor in which the sizes of `symbolic` dimensions, a bit for each, become symbols. A stride that is
/// the product of a size and a stride, and would change with a symbol, follows that product. Of the other strides,
/// those of the dimensions `open` become symbols of their own, unless they are 0 or 1, or the product of constants.
STATOR_API InputLayout layout_of(std::span<const int64_t> sizes, std::span<const int64_t> strides, uint64_t symbolic,
                                 uint64_t open = 0);

}  // namespace stator::shapes
