#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include "core/fake/rule.h"

/// New fakes with dtype and device of another tensor, as kernels allocate their results.
namespace stator::fake {

/// Same sizes and dtype; dense, with dimensions in the model's order.
inline at::Tensor new_like(const at::Tensor& model) {
  return make_fake(model.sym_sizes(), like_strides(model), model.scalar_type(), model.device());
}

/// Same sizes and dtype in the given memory format.
inline at::Tensor new_like(const at::Tensor& model, at::MemoryFormat format) {
  if (format == at::MemoryFormat::Contiguous) {
    return make_contiguous(model.sym_sizes(), model.scalar_type(), model.device());
  }
  if (format == at::MemoryFormat::Preserve) return new_like(model);
  return make_in_format(model.sym_sizes(), format, model.scalar_type(), model.device());
}

/// Row-major, with the model's dtype and device.
inline at::Tensor new_contiguous(const at::Tensor& model, c10::SymIntArrayRef sizes) {
  return make_contiguous(sizes, model.scalar_type(), model.device());
}
inline at::Tensor new_contiguous(const at::Tensor& model, c10::IntArrayRef sizes) {
  return make_contiguous(sizes, model.scalar_type(), model.device());
}

/// In a memory format, with the model's dtype and device.
inline at::Tensor new_in_format(const at::Tensor& model, c10::SymIntArrayRef sizes, at::MemoryFormat format) {
  if (format == at::MemoryFormat::Contiguous) return new_contiguous(model, sizes);
  return make_in_format(sizes, format, model.scalar_type(), model.device());
}
inline at::Tensor new_in_format(const at::Tensor& model, c10::IntArrayRef sizes, at::MemoryFormat format) {
  return new_in_format(model, c10::fromIntArrayRefSlow(sizes), format);
}

/// Whether the tensor is on a device whose kernels the shape functions describe.
inline bool is_on_known_device(const at::Tensor& tensor) { return tensor.is_cpu() || tensor.is_cuda(); }

/// Refuses, naming the operator, unless the condition holds. Used where the real kernel would raise, or where its
/// result is not known.
inline void require(bool condition, const Args& args, const char* reason) {
  if (!condition) refuse(args.op(), reason);
}

}  // namespace stator::fake
