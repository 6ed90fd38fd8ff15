#pragma once

#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"

/// Batches of matrices.
namespace stator::fake {

/// A batch of column-major matrices, the layout that LAPACK uses.
inline at::Tensor new_column_major(const at::Tensor& model, const Dims& sizes, at::ScalarType dtype) {
  Dims turned(sizes);
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  Dims strides = contiguous_strides(turned);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return make_fake(sizes, strides, dtype, model.device());
}

inline Dims matrix_sizes(const at::Tensor& tensor) { return {tensor.sym_sizes().begin(), tensor.sym_sizes().end()}; }

inline void require_square(const Args& args, const at::Tensor& matrix) {
  require(matrix.dim() >= 2 && matrix.sym_size(-1) == matrix.sym_size(-2), args, "not square matrices");
}

inline void require_linalg_dtype(const Args& args, const at::Tensor& matrix) {
  const at::ScalarType dtype = matrix.scalar_type();
  require(dtype == at::kFloat || dtype == at::kDouble || at::isComplexType(dtype), args, "a dtype without a kernel");
}

/// The batch dimensions of both tensors, broadcast.
inline Dims broadcast_batches(const Args& args, const at::Tensor& a, const at::Tensor& b) {
  const auto first = a.sym_sizes().slice(0, static_cast<size_t>(a.dim()) - 2);
  const auto second = b.sym_sizes().slice(0, static_cast<size_t>(b.dim()) - 2);
  Dims batches(std::max(first.size(), second.size()), c10::SymInt(1));
  for (const auto& sizes : {first, second}) {
    const size_t shift = batches.size() - sizes.size();
    for (size_t i = 0; i < sizes.size(); ++i) {
      c10::SymInt& size = batches[shift + i];
      if (always_equal(size, sizes[i]) || always_equal(sizes[i], 1)) continue;
      if (size == 1) {
        size = sizes[i];
      } else {
        require(sizes[i] == size || sizes[i] == 1, args, "batch dimensions do not broadcast");
      }
    }
  }
  return batches;
}

}  // namespace stator::fake
