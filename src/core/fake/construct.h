#pragma once

#include <ATen/core/Tensor.h>

#include "core/base/export.h"

/// The parts a fake is made of: storage, dispatch keys, geometry. The helpers of rule.h are built on these.
namespace stator::fake {

/// The message that a fake's storage throws. Short, so that no storage allocates memory for it.
inline constexpr char kNoData[] = "stator: no data";

/// A storage on `device` without memory, whose every access throws kNoData.
c10::Storage make_storage(c10::SymInt bytes, c10::Device device);
/// RAII: fakes made on this thread also have the backend bit of meta tensors. Formulas of autograd then compute without
/// a look at data, as they do for tensor subclasses. The device of the fakes is the true one.
class STATOR_API MetaBitScope {
 public:
  MetaBitScope();
  ~MetaBitScope();
  MetaBitScope(const MetaBitScope&) = delete;

 private:
  bool previous_;
};

/// `Fake` and the backend key of the device. TensorImpl adds the autograd keys.
c10::DispatchKeySet keys_for(c10::Device device);
/// A tensor over a storage. Its sizes are those of an empty tensor until `set_geometry`.
at::Tensor make_over(c10::Storage storage, c10::DispatchKeySet keys, at::ScalarType dtype);
void set_geometry(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                  const c10::SymInt& offset);

}  // namespace stator::fake
