#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/DimVector.h>

#include <optional>

#include "core/base/export.h"
#include "core/fake/fake_tensor.h"

/// Stator's own shape functions (`Rule`). A shape function gets the operator's boxed arguments and returns fakes with
/// the sizes, strides, dtype, device and aliasing that the real kernel's results would have. It never touches data or a
/// generator. Autograd, conjugation and autocast have run before it.
namespace stator::fake {

/// Drops the operator's arguments from the top of the stack and pushes its results. If the real kernel would raise, it
/// throws the same c10::Error (TORCH_CHECK); if it can't answer exactly, it calls `refuse`.
using Rule = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Poisons the thread (see fake_tensor.h) and throws Unsupported. The capture breaks there.
[[noreturn]] void refuse(std::string reason);
[[noreturn]] void refuse(const c10::OperatorHandle& op, const char* reason);

/// The arguments of one call, by position in the schema. References point into the stack: valid until `returns`.
class Args {
 public:
  Args(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), stack_(stack), count_(op.schema().arguments().size()), first_(stack->size() - count_) {}

  const c10::OperatorHandle& op() const { return op_; }
  size_t count() const { return count_; }
  const c10::IValue& operator[](size_t i) const { return (*stack_)[first_ + i]; }

  const at::Tensor& tensor(size_t i) const { return (*this)[i].toTensor(); }
  /// Undefined for None.
  at::Tensor optional_tensor(size_t i) const { return is_none(i) ? at::Tensor() : (*this)[i].toTensor(); }
  std::vector<at::Tensor> tensors(size_t i) const { return (*this)[i].toTensorVector(); }
  bool is_none(size_t i) const { return (*this)[i].isNone(); }
  int64_t integer(size_t i) const { return (*this)[i].toInt(); }
  c10::SymInt sym_int(size_t i) const { return (*this)[i].toSymInt(); }
  std::vector<int64_t> ints(size_t i) const { return (*this)[i].toIntVector(); }
  std::vector<c10::SymInt> sym_ints(size_t i) const { return (*this)[i].toSymIntVector(); }
  bool boolean(size_t i) const { return (*this)[i].toBool(); }
  double number(size_t i) const { return (*this)[i].toDouble(); }
  at::Scalar scalar(size_t i) const { return (*this)[i].toScalar(); }
  std::optional<at::ScalarType> optional_dtype(size_t i) const {
    return is_none(i) ? std::nullopt : std::optional((*this)[i].toScalarType());
  }

  /// Replaces the arguments by the results.
  template <class... Results>
  void returns(Results&&... results) {
    // The results may live in the argument slots that are dropped.
    c10::IValue values[] = {c10::IValue(std::forward<Results>(results))...};
    torch::jit::drop(*stack_, count_);
    for (auto& value : values) stack_->push_back(std::move(value));
  }

 private:
  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  size_t count_;
  size_t first_;
};

using Dims = c10::SymDimVector;

/// A new fake with its own data-less storage. Strides are taken as given.
at::Tensor make_fake(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, at::ScalarType dtype, c10::Device device);
at::Tensor make_fake(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype, c10::Device device);
/// A new row-major fake.
at::Tensor make_contiguous(c10::SymIntArrayRef sizes, at::ScalarType dtype, c10::Device device);
at::Tensor make_contiguous(c10::IntArrayRef sizes, at::ScalarType dtype, c10::Device device);
/// A new fake in a memory format (Contiguous, ChannelsLast, ChannelsLast3d).
at::Tensor make_in_format(c10::SymIntArrayRef sizes, at::MemoryFormat format, at::ScalarType dtype, c10::Device device);

/// A fake over the base's storage, with the base's dispatch keys, and its dtype unless another one is given. Autograd,
/// which runs above, makes it a view of the base.
at::Tensor make_view(const at::Tensor& base, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                     const c10::SymInt& offset, std::optional<at::ScalarType> dtype = std::nullopt);

Dims contiguous_strides(c10::SymIntArrayRef sizes);
c10::DimVector contiguous_strides(c10::IntArrayRef sizes);
Dims format_strides(c10::SymIntArrayRef sizes, at::MemoryFormat format);
/// Strides of a new dense tensor laid out like `like` (what `empty_like` with the preserve format gives).
Dims like_strides(const at::Tensor& like);

/// Gives an `out=` argument its final size, as torch's `resize_output` does. If it has that size, it stays as it is;
/// otherwise it becomes row-major, or gets `strides`.
void resize_out(const at::Tensor& out, c10::SymIntArrayRef sizes,
                std::optional<c10::SymIntArrayRef> strides = std::nullopt);

/// The meta twin of a fake: a tensor on the meta device with the same sizes, strides, dtype and wrapped-number flag. It
/// does not require grad. Undefined tensors stay undefined; symbolic sizes are refused.
at::Tensor meta_twin(const at::Tensor& tensor);
/// A fake with the metadata of a meta tensor, on `device`.
at::Tensor from_meta(const at::Tensor& meta, c10::Device device);

/// RAII: `Fake`, autograd and ADInplaceOrView are off, so that kernels on meta twins run as plain meta kernels.
class MetaScope {
 public:
  MetaScope();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace stator::fake
