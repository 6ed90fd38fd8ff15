#pragma once

#include "core/fake/rule.h"
#include "core/fake/spec.h"

namespace stator::fake {

/// Sizes, strides and offset of a view, to begin with those of its base.
struct ViewGeometry {
  explicit ViewGeometry(const at::Tensor& base)
      : sizes(dims_of(base)),
        strides(base.sym_strides().begin(), base.sym_strides().end()),
        offset(base.sym_storage_offset()) {}

  at::Tensor make(const at::Tensor& base) const { return make_view(base, sizes, strides, offset); }

  void erase(int64_t dim) {
    sizes.erase(sizes.begin() + dim);
    strides.erase(strides.begin() + dim);
  }
  void swap(int64_t a, int64_t b) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }

  Dims sizes;
  Dims strides;
  c10::SymInt offset;
};

}  // namespace stator::fake
