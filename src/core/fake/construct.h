#pragma once

#include <ATen/core/Tensor.h>

/// How fakes are put together from storage, keys and geometry; what the helpers of rule.h stand on.
namespace stator::fake {

/// The text that a fake's storage throws. Short enough to need no allocation for each storage.
inline constexpr char kNoData[] = "stator: no data";

/// A storage on `device` without memory, whose every access throws kNoData.
c10::Storage make_storage(c10::SymInt bytes, c10::Device device);
/// `Fake` and the backend key of the device; TensorImpl adds the autograd keys.
c10::DispatchKeySet keys_for(c10::Device device);
/// A tensor over a storage; sizes are still those of an empty one.
at::Tensor make_over(c10::Storage storage, c10::DispatchKeySet keys, at::ScalarType dtype);
void set_geometry(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                  const c10::SymInt& offset);

}  // namespace stator::fake
