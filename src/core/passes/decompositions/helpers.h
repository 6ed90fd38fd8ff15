#pragma once

#include <ATen/core/Tensor.h>

namespace stator::passes::decompositions {

/// Runs `body` on the tensor in the dtype in which kernels compute: float32 for half and bfloat16. The result has the
/// dtype of the tensor.
template <class Body>
at::Tensor in_wide(const at::Tensor& tensor, const Body& body) {
  const auto dtype = tensor.scalar_type();
  if (dtype != at::kHalf && dtype != at::kBFloat16) return body(tensor);
  return body(tensor.to(at::kFloat)).to(dtype);
}

/// The mean (1) or sum (2) of a loss, or the loss itself (0).
inline at::Tensor reduced(const at::Tensor& loss, int64_t reduction) {
  return reduction == 1 ? loss.mean() : reduction == 2 ? loss.sum() : loss;
}

}  // namespace stator::passes::decompositions
