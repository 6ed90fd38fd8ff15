#include <ATen/EmptyTensor.h>

#include "core/fake/iterator.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"
#include "core/fake/symbolic.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {

namespace {

/// Broadcasts the source to the target. The target keeps its metadata.
void copy_into(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const at::Tensor& source = args.tensor(1);
  if (is_symbolic(self) || is_symbolic(source) || !self.sym_sizes().equals(source.sym_sizes()))
    iterate_in_place(self, {&self, &source});
  args.returns(self);
}

Dims copy_strides(const at::Tensor& self, const c10::IValue& format) {
  const auto wanted = format.isNone() ? at::MemoryFormat::Preserve : format.toMemoryFormat();
  if (wanted == at::MemoryFormat::Preserve) return like_strides(self);
  return format_strides(self.sym_sizes(), wanted);
}

/// (self, dtype, layout, device, pin_memory, non_blocking, memory_format)
Specs to_copy(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  if (!args.is_none(2) && args[2].toLayout() != at::kStrided) refuse(args.op(), "a layout other than strided");
  if (!args.is_none(4) && args.boolean(4)) refuse(args.op(), "pinned memory");
  const auto dtype = args.is_none(1) ? self.scalar_type() : args[1].toScalarType();
  const auto device = args.is_none(3) ? self.device() : args[3].toDevice();
  return {{dims_of(self), dtype, device, copy_strides(self, args[6])}};
}

/// Some kernels of torch copy a tensor to the meta device, to compute the shape of a result there. Their copy is a meta
/// tensor, not a fake; it never gets into a graph.
void to_copy_or_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const bool to_meta = !args.is_none(3) && args[3].toDevice().is_meta();
  if (!to_meta) return make_results<to_copy>(op, stack);
  const auto specs = to_copy(args);
  args.returns(at::Tensor(at::detail::empty_strided_symint_meta(specs[0].sizes, *specs[0].strides, specs[0].dtype)));
}

Specs clone(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{dims_of(self), self.scalar_type(), self.device(), copy_strides(self, args[1])}};
}

/// An operator that returns nothing and raises for some values. The run of the graph makes the check.
void check_only(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

struct Options {
  at::ScalarType dtype;
  c10::Device device;
};

/// Reads the arguments (dtype, layout, device, pin_memory), the first at position `dtype_at`. None means as in `self`.
Options options_like(const Args& args, const at::Tensor& self, size_t dtype_at) {
  if (!args.is_none(dtype_at + 1) && args[dtype_at + 1].toLayout() != at::kStrided) {
    refuse(args.op(), "a layout other than strided");
  }
  if (!args.is_none(dtype_at + 3) && args.boolean(dtype_at + 3)) refuse(args.op(), "pinned memory");
  const auto dtype = args.is_none(dtype_at) ? self.scalar_type() : args[dtype_at].toScalarType();
  const auto device = args.is_none(dtype_at + 2) ? self.device() : args[dtype_at + 2].toDevice();
  if (device.is_meta()) refuse(args.op(), "the meta device");
  return {dtype, device};
}

/// `empty_like` and the like: (self, [value,] dtype, layout, device, pin_memory, memory_format)
template <size_t dtype_at>
Specs like(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  const auto [dtype, device] = options_like(args, self, dtype_at);
  return {{dims_of(self), dtype, device, copy_strides(self, args[dtype_at + 4])}};
}

/// (self, size, [value,] dtype, layout, device, pin_memory)
template <size_t dtype_at>
Specs new_sized(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  auto sizes = args.sym_ints(1);
  for (auto& size : sizes) {
    size = shapes::as_size(size);
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", c10::SymIntArrayRef(sizes));
  }
  const auto [dtype, device] = options_like(args, self, dtype_at);
  return {{Dims(sizes.begin(), sizes.end()), dtype, device}};
}

const ShapeRow kCopiesRows[] = {
#include "core/ops/copies.def"
};

}  // namespace

void register_copies() { add_shapes(kCopiesRows); }

}  // namespace stator::fake
