#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"
#include "core/fake/symbolic.h"
#include "core/shapes/data_scope.h"
#include "core/shapes/sym_node.h"

/// Operators with results whose size depends on data: it becomes an unbacked symbol.
namespace stator::fake {
namespace {

c10::SymInt new_size(const Args& args, const c10::SymInt& most) {
  require(shapes::env_for_sizes() != nullptr, args, "the size of the result depends on values");
  return shapes::new_size(most);
}

void require_known_device(const Args& args, const at::Tensor& tensor) {
  require(is_on_known_device(tensor), args, "the layout of a result on this device");
}

/// Positions, one column per dimension. The result is column-major.
Specs nonzero(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  require_known_device(args, self);
  const c10::SymInt count = new_size(args, self.sym_numel());
  return {{{count, c10::SymInt(self.dim())}, at::kLong, self.device(), Dims{c10::SymInt(1), count}}};
}

Specs masked_select(const Args& args) {
  const at::Tensor &self = args.tensor(0), &mask = args.tensor(1);
  require(mask.scalar_type() == at::kBool, args, "a mask of another dtype");
  require(self.device() == mask.device(), args, "tensors on different devices");
  return {{{new_size(args, INT64_MAX)}, self.scalar_type(), self.device()}};
}

Spec positions(Dims sizes, const at::Tensor& self) { return {std::move(sizes), at::kLong, self.device()}; }

/// The distinct values, the position of each element among them, and the count of each.
template <size_t inverse, size_t counts>
Specs unique(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  require_known_device(args, self);
  const c10::SymInt count = new_size(args, self.sym_numel());
  const Dims none{c10::SymInt(0)};
  return {{{count}, self.scalar_type(), self.device()},
          positions(args.boolean(inverse) ? dims_of(self) : none, self),
          positions(args.boolean(counts) ? Dims{count} : none, self)};
}

/// The same for slices along a dimension. The CPU kernel makes that dimension outermost in memory; the CUDA kernel
/// makes a row-major result, and leaves out what was not asked for.
template <size_t inverse, size_t counts>
Specs unique_along(const Args& args, int64_t given) {
  const at::Tensor& self = args.tensor(0);
  require_known_device(args, self);
  require(self.dim() > 0, args, "a tensor without dimensions");
  const int64_t dim = wrap_dim(given, self.dim());
  Dims sizes = dims_of(self);
  const c10::SymInt length = sizes[dim], count = new_size(args, length);
  sizes[dim] = count;
  if (self.is_cuda()) {
    const Dims none{c10::SymInt(0)};
    return {{sizes, self.scalar_type(), self.device()},
            positions(args.boolean(inverse) ? Dims{length} : none, self),
            positions(args.boolean(counts) ? Dims{count} : none, self)};
  }
  Dims swapped = sizes;
  std::swap(swapped[0], swapped[dim]);
  Dims strides = contiguous_strides(swapped);
  std::swap(strides[0], strides[dim]);
  return {{sizes, self.scalar_type(), self.device(), strides}, positions({length}, self), positions({count}, self)};
}
Specs unique_dim(const Args& args) { return unique_along<3, 4>(args, args.integer(1)); }
Specs unique_consecutive(const Args& args) {
  return args.is_none(3) ? unique<1, 2>(args) : unique_along<1, 2>(args, args.integer(3));
}

/// `(self, weights, minlength)`
Specs bincount(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  const at::Tensor weights = args.optional_tensor(1);
  const auto dtype = !weights.defined() ? at::kLong : weights.scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  return {{{new_size(args, INT64_MAX)}, dtype, self.device()}};
}

const ShapeRow kDataDependentRows[] = {
#include "core/ops/data_dependent.def"
};

}  // namespace

void register_data_dependent() { add_shapes(kDataDependentRows); }

}  // namespace stator::fake
