#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

#include "core/fake/families/view_geometry.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"
#include "core/shapes/sym_node.h"

/// Views that take a part of a tensor: slices, single positions, pieces.
namespace stator::fake {

namespace {

/// A start or end position clamped to [0, size]. A negative one counts from the end.
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
  ViewGeometry view(self);
  const c10::SymInt size = view.sizes[dim];
  const c10::SymInt start = args.is_none(2) ? c10::SymInt(0) : clamp_position(args.sym_int(2), size);
  c10::SymInt end = args.is_none(3) ? size : clamp_position(args.sym_int(3), size);
  if (start.is_heap_allocated() || end.is_heap_allocated()) {
    end = end.max(start);
  } else if (end < start) {
    end = start;
  }
  view.offset = view.offset + start * view.strides[dim];
  view.sizes[dim] = shapes::as_size((end - start + step - 1) / step);
  view.strides[dim] = view.strides[dim] * step;
  args.returns(view.make(self));
}

void select(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK_INDEX(self.dim() > 0, "select() cannot be applied to a 0-dim tensor.");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(1), self.dim());
  c10::SymInt index = args.sym_int(2);
  ViewGeometry view(self);
  const c10::SymInt size = view.sizes[dim];
  if (index.is_heap_allocated() || size.is_heap_allocated()) {
    // If it is out of range, the run raises.
    index = shapes::position_in(index, size);
  } else {
    TORCH_CHECK_INDEX(index >= -size && index < size, "select(): index ", index, " out of range for tensor of size ",
                      self.sym_sizes(), " at dimension ", dim);
    if (index < 0) index = index + size;
  }
  view.offset = view.offset + index * view.strides[dim];
  view.erase(dim);
  args.returns(view.make(self));
}

void unbind(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK_INDEX(self.dim() > 0, "Dimension specified as ", args.integer(1), " but tensor has no dimensions");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(1), self.dim());
  ViewGeometry view(self);
  const int64_t count = view.sizes[dim].guard_int(__FILE__, __LINE__);
  const c10::SymInt stride = view.strides[dim];
  view.erase(dim);
  c10::List<at::Tensor> parts;
  parts.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(view.make(self));
    view.offset = view.offset + stride;
  }
  args.returns(std::move(parts));
}

/// Consecutive pieces of the given lengths.
c10::List<at::Tensor> pieces(const at::Tensor& self, int64_t dim, const std::vector<c10::SymInt>& lengths) {
  ViewGeometry view(self);
  c10::List<at::Tensor> parts;
  parts.reserve(lengths.size());
  for (const auto& length : lengths) {
    view.sizes[dim] = length;
    parts.push_back(view.make(self));
    view.offset = view.offset + length * view.strides[dim];
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

/// Drops the dimensions of size one whose bit is set in the mask.
at::Tensor squeezed(const at::Tensor& self, uint64_t mask) {
  const ViewGeometry base(self);
  ViewGeometry view(self);
  view.sizes.clear();
  view.strides.clear();
  for (int64_t i = 0; i < self.dim(); ++i) {
    if ((mask >> i & 1) && base.sizes[i] == 1) continue;
    view.sizes.push_back(base.sizes[i]);
    view.strides.push_back(base.strides[i]);
  }
  return view.make(self);
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

const ShapeRow kSlicesRows[] = {
#include "core/ops/slices.def"
};

}  // namespace

void register_slices() { add_shapes(kSlicesRows); }

}  // namespace stator::fake
