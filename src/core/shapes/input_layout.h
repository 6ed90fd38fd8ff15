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

  std::vector<bool> sizes;      // by dimension: the size is a symbol
  std::vector<int8_t> strides;  // by dimension: the stride is the size times the stride of this one; -1: a constant
  std::vector<bool> unbacked;   // by dimension: the symbol is unbacked; empty: none is
  std::vector<Bounds> bounds;   // by dimension; empty: none has bounds

  bool is_static() const;
  bool operator==(const InputLayout&) const = default;
};

/// The layout of a tensor in which the sizes of `symbolic` dimensions, a bit for each, become symbols. A stride that is
/// the product of a size and a stride, and would change with a symbol, follows that product.
STATOR_API InputLayout layout_of(std::span<const int64_t> sizes, std::span<const int64_t> strides, uint64_t symbolic);

}  // namespace stator::shapes
