#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <optional>

#include "core/fake/construct.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/spec.h"
#include "core/fake/symbolic.h"
#include "core/shapes/sym_node.h"

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

/// Row-major tensors have every view; where the number of elements is another than the sizes say, the run raises.
at::Tensor symbolic_view(const at::Tensor& self, const std::vector<c10::SymInt>& shape) {
  Dims sizes = to_dims(shape);
  c10::SymInt product = 1;
  std::optional<size_t> inferred;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].maybe_as_int() == -1) {
      TORCH_CHECK(!inferred, "only one dimension can be inferred");
      inferred = i;
    } else {
      sizes[i] = shapes::as_size(sizes[i]);
      product = product * sizes[i];
    }
  }
  if (inferred) sizes[*inferred] = shapes::as_size(shapes::quotient(self.sym_numel(), product));
  return make_view(self, sizes, contiguous_strides(sizes), self.sym_storage_offset());
}

void view(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto shape = args.sym_ints(1);
  const bool asks_symbols =
      std::any_of(shape.begin(), shape.end(), [](const auto& s) { return s.is_heap_allocated(); });
  if (asks_symbols || is_symbolic(self)) {
    require(is_row_major(self), args, "a view of what may not be row-major");
    return args.returns(symbolic_view(self, shape));
  }
  const Dims sizes = at::infer_size_dv(shape, self.sym_numel());
  const auto strides = at::detail::computeStride(self.sym_sizes(), self.sym_strides(), sizes);
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

/// The target takes over storage and geometry of the source.
void set_tensor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const at::Tensor& source = args.tensor(1);
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(source.storage());
  set_geometry(self, source.sym_sizes(), source.sym_strides(), source.sym_storage_offset());
  args.returns(self);
}

/// Views along dimensions, each as (sizes, strides, offset) of the result.
struct Shape {
  explicit Shape(const at::Tensor& base)
      : sizes(dims_of(base)),
        strides(base.sym_strides().begin(), base.sym_strides().end()),
        offset(base.sym_storage_offset()) {}
  Dims sizes;
  Dims strides;
  c10::SymInt offset;

  at::Tensor of(const at::Tensor& base) const { return make_view(base, sizes, strides, offset); }
};

void transpose(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t a = wrap_dim(args.integer(1), self.dim()), b = wrap_dim(args.integer(2), self.dim());
  Shape shape(self);
  if (a != b) {
    std::swap(shape.sizes[a], shape.sizes[b]);
    std::swap(shape.strides[a], shape.strides[b]);
  }
  args.returns(shape.of(self));
}

void t(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK(self.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", self.dim(), "D");
  Shape shape(self);
  if (self.dim() == 2) {
    std::swap(shape.sizes[0], shape.sizes[1]);
    std::swap(shape.strides[0], shape.strides[1]);
  }
  args.returns(shape.of(self));
}

void permute(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto dims = args.ints(1);
  TORCH_CHECK(static_cast<int64_t>(dims.size()) == self.dim(), "permute: ", dims.size(),
              " dimensions are given for a tensor with ", self.dim());
  const Shape base(self);
  Shape shape(self);
  uint64_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = wrap_dim(dims[i], self.dim());
    TORCH_CHECK(!(seen >> dim & 1), "permute(): duplicate dims are not allowed.");
    seen |= uint64_t{1} << dim;
    shape.sizes[i] = base.sizes[dim];
    shape.strides[i] = base.strides[dim];
  }
  args.returns(shape.of(self));
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
    // A tensor without dimensions has no step at all.
    c10::SymInt stride = self.dim() == 0 ? c10::SymInt(0)
                         : is_new        ? (i + 1 < rank ? sizes[i + 1] * strides[i + 1] : c10::SymInt(1))
                                         : self.sym_stride(i - added);
    if (sizes[i] == -1) {
      TORCH_CHECK(!is_new, "The expanded size of the tensor (", sizes[i],
                  ") isn't allowed in a leading, non-existing dimension ", i);
      sizes[i] = size;
    } else if (!(size == sizes[i])) {
      TORCH_CHECK(size == 1, "The expanded size of the tensor (", sizes[i], ") must match the existing size (", size,
                  ") at non-singleton dimension ", i);
      stride = 0;
    }
    strides[i] = stride;
  }
  args.returns(make_view(self, sizes, strides, self.sym_storage_offset()));
}

/// Brings a start or end into [0, size].
c10::SymInt clamp_position(c10::SymInt position, const c10::SymInt& size) {
  if (position.is_heap_allocated() || size.is_heap_allocated()) return shapes::position_in(position, size);
  if (position < 0) position = position + size;
  if (position < 0) return 0;
  return position > size ? size : position;
}

void slice(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK_INDEX(self.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(1), self.dim());
  const c10::SymInt step = args.sym_int(4);
  TORCH_CHECK(step > 0, "slice step must be positive");
  Shape shape(self);
  const c10::SymInt size = shape.sizes[dim];
  const c10::SymInt start = args.is_none(2) ? c10::SymInt(0) : clamp_position(args.sym_int(2), size);
  c10::SymInt end = args.is_none(3) ? size : clamp_position(args.sym_int(3), size);
  if (start.is_heap_allocated() || end.is_heap_allocated()) {
    end = end.max(start);
  } else if (end < start) {
    end = start;
  }
  shape.offset = shape.offset + start * shape.strides[dim];
  shape.sizes[dim] = shapes::as_size((end - start + step - 1) / step);
  shape.strides[dim] = shape.strides[dim] * step;
  args.returns(shape.of(self));
}

void select(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK_INDEX(self.dim() > 0, "select() cannot be applied to a 0-dim tensor.");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(1), self.dim());
  c10::SymInt index = args.sym_int(2);
  Shape shape(self);
  const c10::SymInt size = shape.sizes[dim];
  if (index.is_heap_allocated() || size.is_heap_allocated()) {
    // The run raises where it is out of range.
    index = shapes::position_in(index, size);
  } else {
    TORCH_CHECK_INDEX(index >= -size && index < size, "select(): index ", index, " out of range for tensor of size ",
                      self.sym_sizes(), " at dimension ", dim);
    if (index < 0) index = index + size;
  }
  shape.offset = shape.offset + index * shape.strides[dim];
  shape.sizes.erase(shape.sizes.begin() + dim);
  shape.strides.erase(shape.strides.begin() + dim);
  args.returns(shape.of(self));
}

void unsqueeze(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t dim = c10::maybe_wrap_dim(args.integer(1), self.dim() + 1);
  Shape shape(self);
  const c10::SymInt stride = dim < self.dim() ? shape.sizes[dim] * shape.strides[dim] : c10::SymInt(1);
  shape.sizes.insert(shape.sizes.begin() + dim, c10::SymInt(1));
  shape.strides.insert(shape.strides.begin() + dim, stride);
  args.returns(shape.of(self));
}

void alias(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  args.returns(make_view(self, self.sym_sizes(), self.sym_strides(), self.sym_storage_offset()));
}

void unbind(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK_INDEX(self.dim() > 0, "Dimension specified as ", args.integer(1), " but tensor has no dimensions");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(1), self.dim());
  Shape shape(self);
  const int64_t count = shape.sizes[dim].guard_int(__FILE__, __LINE__);
  const c10::SymInt stride = shape.strides[dim];
  shape.sizes.erase(shape.sizes.begin() + dim);
  shape.strides.erase(shape.strides.begin() + dim);
  c10::List<at::Tensor> parts;
  parts.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(shape.of(self));
    shape.offset = shape.offset + stride;
  }
  args.returns(std::move(parts));
}

/// Consecutive pieces of the given lengths.
c10::List<at::Tensor> pieces(const at::Tensor& self, int64_t dim, const std::vector<c10::SymInt>& lengths) {
  Shape shape(self);
  c10::List<at::Tensor> parts;
  parts.reserve(lengths.size());
  for (const auto& length : lengths) {
    shape.sizes[dim] = length;
    parts.push_back(shape.of(self));
    shape.offset = shape.offset + length * shape.strides[dim];
  }
  return parts;
}

void split(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK(self.dim() != 0, "split expects at least a 1-dimensional tensor");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(2), self.dim());
  const c10::SymInt length = args.sym_int(1), size = self.sym_size(dim);
  TORCH_CHECK(length >= 0, "split expects split_size be non-negative, but got split_size=", length);
  TORCH_CHECK(length > 0 || size == 0, "split_size can only be 0 if dimension size is 0, but got dimension size of ",
              size);
  const int64_t count =
      length == 0 ? 1 : std::max<int64_t>(((size + length - 1) / length).guard_int(__FILE__, __LINE__), 1);
  std::vector<c10::SymInt> lengths(count, length);
  lengths.back() = length - (length * count - size);
  args.returns(pieces(self, dim, lengths));
}

void split_with_sizes(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK(self.dim() != 0, "split expects at least a 1-dimensional tensor");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(2), self.dim());
  const auto lengths = args.sym_ints(1);
  c10::SymInt total = 0;
  for (const auto& length : lengths) {
    TORCH_CHECK(length >= 0, "split_with_sizes expects split_sizes have only non-negative entries");
    total = total + length;
  }
  TORCH_CHECK(total == self.sym_size(dim), "split_with_sizes expects split_sizes to sum exactly to ",
              self.sym_size(dim), " (input tensor's size at dimension ", dim, "), but got split_sizes sum ", total);
  args.returns(pieces(self, dim, lengths));
}

/// Drops the dimensions of size one, among those the mask names.
at::Tensor squeezed(const at::Tensor& self, uint64_t mask) {
  const Shape base(self);
  Shape shape(self);
  shape.sizes.clear();
  shape.strides.clear();
  for (int64_t i = 0; i < self.dim(); ++i) {
    if ((mask >> i & 1) && base.sizes[i] == 1) continue;
    shape.sizes.push_back(base.sizes[i]);
    shape.strides.push_back(base.strides[i]);
  }
  return shape.of(self);
}

void squeeze(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  uint64_t mask = 0;
  if (args.count() == 1) {
    mask = ~uint64_t{0};
  } else if (args[1].isInt()) {
    mask = uint64_t{1} << wrap_dim(args.integer(1), self.dim());
  } else {
    for (const int64_t dim : args.ints(1)) mask |= uint64_t{1} << wrap_dim(dim, self.dim());
  }
  args.returns(squeezed(self, mask));
}

const RuleRow kRows[] = {
    {"aten::as_strided", as_strided},
    {"aten::_reshape_alias", reshape_alias},
    {"aten::view", view},
    {"aten::_unsafe_view", view},
    {"aten::unfold", unfold},
    {"aten::view_as_real", view_as_real},
    {"aten::view_as_complex", view_as_complex},
    {"aten::resize_", resize},
    {"aten::set_.source_Tensor", set_tensor},
    {"aten::transpose.int", transpose},
    {"aten::t", t},
    {"aten::permute", permute},
    {"aten::expand", expand},
    {"aten::slice.Tensor", slice},
    {"aten::select.int", select},
    {"aten::unsqueeze", unsqueeze},
    {"aten::alias", alias},
    {"aten::detach", alias},
    {"aten::unbind.int", unbind},
    {"aten::split.Tensor", split},
    {"aten::split_with_sizes", split_with_sizes},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze},
    {"aten::squeeze.dims", squeeze},
};

}  // namespace

void register_views() { add_rules(kRows); }

}  // namespace stator::fake
