#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <optional>

#include "core/fake/construct.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/families/view_geometry.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"
#include "core/fake/symbolic.h"
#include "core/fake/view_strides.h"

namespace stator::fake {

namespace {

Dims to_dims(const std::vector<c10::SymInt>& values) { return Dims(values.begin(), values.end()); }

void as_strided(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const c10::SymInt offset = args.is_none(3) ? self.sym_storage_offset() : args.sym_int(3);
  const auto sizes = args.sym_ints(1), strides = args.sym_ints(2);
  TORCH_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  args.returns(make_view(self, sizes, strides, offset));
}

void reshape_alias(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  args.returns(make_view(self, args.sym_ints(1), args.sym_ints(2), self.sym_storage_offset()));
}

void view(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto shape = args.sym_ints(1);
  const bool asks_symbols =
      std::any_of(shape.begin(), shape.end(), [](const auto& s) { return s.is_heap_allocated(); });
  const bool has_symbols = asks_symbols || is_symbolic(self);
  const Dims sizes = has_symbols ? view_sizes(self, shape) : at::infer_size_dv(shape, self.sym_numel());
  const std::optional<Dims> strides =
      has_symbols ? view_strides(self, sizes) : at::detail::computeStride(self.sym_sizes(), self.sym_strides(), sizes);
  TORCH_CHECK(strides.has_value(),
              "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
              "two contiguous subspaces). Use .reshape(...) instead.");
  args.returns(make_view(self, sizes, *strides, self.sym_storage_offset()));
}

void unfold(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t dim = wrap_dim(args.integer(1), self.dim());
  const int64_t size = args.integer(2), step = args.integer(3);
  Dims sizes = dims_of(self);
  Dims strides(self.sym_strides().begin(), self.sym_strides().end());
  const c10::SymInt extent = self.dim() == 0 ? c10::SymInt(1) : sizes[dim];
  TORCH_CHECK(size >= 0, "size is ", size, " but must be >= 0");
  TORCH_CHECK(extent >= size, "maximum size for tensor at dimension ", dim, " is ", extent, " but size is ", size);
  TORCH_CHECK(step > 0, "step is ", step, " but must be > 0");
  if (self.dim() == 0) {
    sizes.emplace_back(size);
    strides.emplace_back(1);
  } else {
    sizes.emplace_back(size);
    strides.push_back(strides[dim]);
    sizes[dim] = (extent - size) / step + 1;
    strides[dim] = strides[dim] * step;
  }
  args.returns(make_view(self, sizes, strides, self.sym_storage_offset()));
}

void view_as_real(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK(self.is_complex(), "view_as_real is only supported for complex tensors");
  Dims sizes = dims_of(self), strides;
  for (const auto& stride : self.sym_strides()) strides.push_back(stride * 2);
  sizes.emplace_back(2);
  strides.emplace_back(1);
  args.returns(
      make_view(self, sizes, strides, self.sym_storage_offset() * 2, c10::toRealValueType(self.scalar_type())));
}

void view_as_complex(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK(self.is_floating_point(), "view_as_complex is only supported for floating point tensors");
  TORCH_CHECK(self.dim() > 0 && self.sym_size(-1) == 2, "Tensor must have a last dimension of size 2");
  TORCH_CHECK(self.sym_stride(-1) == 1, "Tensor must have a last dimension with stride 1");
  Dims sizes = dims_of(self), strides;
  sizes.pop_back();
  for (int64_t i = 0; i + 1 < self.dim(); ++i) {
    const c10::SymInt stride = self.sym_stride(i);
    TORCH_CHECK(stride % 2 == 0, "Tensor must have a stride divisible by 2 for all but last dimension");
    strides.push_back(stride / 2);
  }
  TORCH_CHECK(self.sym_storage_offset() % 2 == 0, "Tensor must have a storage_offset divisible by 2");
  args.returns(make_view(self, sizes, strides, self.sym_storage_offset() / 2, c10::toComplexType(self.scalar_type())));
}

void resize(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const Dims sizes = to_dims(args.sym_ints(1));
  if (args.is_none(2)) {
    resize_out(self, sizes);
  } else {
    const auto format = args[2].toMemoryFormat();
    TORCH_CHECK(format != at::MemoryFormat::Preserve, "Unsupported memory format ", format);
    const Dims strides = format_strides(sizes, format);
    resize_out(self, sizes, c10::SymIntArrayRef(strides));
    set_geometry(self, sizes, strides, self.sym_storage_offset());
  }
  args.returns(self);
}

/// (self, template, memory_format)
void resize_as(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require(args.is_none(2) || args[2].toMemoryFormat() == at::MemoryFormat::Contiguous, args, "a memory format");
  resize_out(self, args.tensor(1).sym_sizes());
  args.returns(self);
}

/// The target gets storage, sizes, strides and offset of the source.
void set_tensor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const at::Tensor& source = args.tensor(1);
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(source.storage());
  set_geometry(self, source.sym_sizes(), source.sym_strides(), source.sym_storage_offset());
  args.returns(self);
}

void transpose(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t a = wrap_dim(args.integer(1), self.dim()), b = wrap_dim(args.integer(2), self.dim());
  ViewGeometry view(self);
  if (a != b) view.swap(a, b);  // a tensor without dimensions has nothing to swap
  args.returns(view.make(self));
}

void t(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK(self.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", self.dim(), "D");
  ViewGeometry view(self);
  if (self.dim() == 2) view.swap(0, 1);
  args.returns(view.make(self));
}

void permute(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto dims = args.ints(1);
  TORCH_CHECK(static_cast<int64_t>(dims.size()) == self.dim(), "permute: ", dims.size(),
              " dimensions are given for a tensor with ", self.dim());
  const ViewGeometry base(self);
  ViewGeometry view(self);
  uint64_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = wrap_dim(dims[i], self.dim());
    TORCH_CHECK(!(seen >> dim & 1), "permute(): duplicate dims are not allowed.");
    seen |= uint64_t{1} << dim;
    view.sizes[i] = base.sizes[dim];
    view.strides[i] = base.strides[dim];
  }
  args.returns(view.make(self));
}

void expand(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  Dims sizes = to_dims(args.sym_ints(1));
  const int64_t rank = static_cast<int64_t>(sizes.size()), added = rank - self.dim();
  TORCH_CHECK(added >= 0, "expand(", self.toString(), "{", self.sym_sizes(), "}, size=", c10::SymIntArrayRef(sizes),
              "): the number of sizes provided (", rank,
              ") must be greater or equal to the number of dimensions in the tensor (", self.dim(), ")");
  Dims strides(rank);
  for (int64_t i = rank - 1; i >= 0; --i) {
    const bool is_new = i < added;
    const c10::SymInt size = is_new ? c10::SymInt(1) : self.sym_size(i - added);
    // New dimensions of a tensor without dimensions have stride 0.
    c10::SymInt stride = self.dim() == 0 ? c10::SymInt(0)
                         : is_new        ? (i + 1 < rank ? sizes[i + 1] * strides[i + 1] : c10::SymInt(1))
                                         : self.sym_stride(i - added);
    if (sizes[i] == -1) {
      TORCH_CHECK(!is_new, "The expanded size of the tensor (", sizes[i],
                  ") isn't allowed in a leading, non-existing dimension ", i);
      sizes[i] = size;
    } else if (is_new ? !TORCH_GUARD_OR_FALSE(size.sym_eq(sizes[i])) : !(size == sizes[i])) {
      TORCH_CHECK(is_new || size == 1, "The expanded size of the tensor (", sizes[i],
                  ") must match the existing size (", size, ") at non-singleton dimension ", i);
      stride = 0;
    }
    strides[i] = stride;
  }
  args.returns(make_view(self, sizes, strides, self.sym_storage_offset()));
}

void unsqueeze(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t dim = c10::maybe_wrap_dim(args.integer(1), self.dim() + 1);
  ViewGeometry view(self);
  const c10::SymInt stride = dim < self.dim() ? view.sizes[dim] * view.strides[dim] : c10::SymInt(1);
  view.sizes.insert(view.sizes.begin() + dim, c10::SymInt(1));
  view.strides.insert(view.strides.begin() + dim, stride);
  args.returns(view.make(self));
}

void alias(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  args.returns(make_view(self, self.sym_sizes(), self.sym_strides(), self.sym_storage_offset()));
}

const ShapeRow kViewsRows[] = {
#include "core/ops/views.def"
};

}  // namespace

void register_views() { add_shapes(kViewsRows); }

}  // namespace stator::fake
