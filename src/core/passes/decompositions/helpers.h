#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/neg.h>

#include <limits>
#include <optional>
#include <vector>

namespace stator::passes::decompositions {

/// Runs `body` on the tensor in the dtype in which kernels compute: float32 for half and bfloat16. The result has the
/// dtype of the tensor.
template <class Body>
at::Tensor in_wide(const at::Tensor& tensor, const Body& body) {
  const auto dtype = tensor.scalar_type();
  if (dtype != at::kHalf && dtype != at::kBFloat16) return body(tensor);
  return body(tensor.to(at::kFloat)).to(dtype);
}

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The dimensions of a reduction. Without a list, all dimensions are reduced.
inline at::OptionalIntArrayRef dims_of(const std::optional<std::vector<int64_t>>& dims) {
  return dims ? at::OptionalIntArrayRef(*dims) : at::OptionalIntArrayRef();
}

inline bool is_low_precision(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

/// The tensor in the dtype in which kernels compute: float32 for half and bfloat16.
inline at::Tensor wide(const at::Tensor& tensor) {
  return tensor.defined() && is_low_precision(tensor) ? tensor.to(at::kFloat) : tensor;
}
inline at::Tensor wide(const std::optional<at::Tensor>& tensor) { return tensor ? wide(*tensor) : at::Tensor(); }

/// `number - tensor`
inline at::Tensor minus(const at::Scalar& number, const at::Tensor& tensor) { return at::neg(tensor).add(number); }

/// 1 / (number of elements) for the gradient of a mean, 1 otherwise.
inline c10::SymFloat mean_factor(const at::Tensor& self, int64_t reduction) {
  return reduction == 1 ? c10::SymFloat(1.0) / c10::SymFloat(self.sym_numel()) : c10::SymFloat(1.0);
}

/// All dimensions from `first` to `last`, without `last`.
inline std::vector<int64_t> dims_between(int64_t first, int64_t last) {
  std::vector<int64_t> dims;
  for (int64_t dim = first; dim < last; ++dim) dims.push_back(dim);
  return dims;
}

/// The mean (1) or sum (2) of a loss, or the loss itself (0).
inline at::Tensor reduced(const at::Tensor& loss, int64_t reduction) {
  return reduction == 1 ? loss.mean() : reduction == 2 ? loss.sum() : loss;
}

}  // namespace stator::passes::decompositions
