#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

namespace stator::fake {

namespace {

/// Both results are laid out like the input.
template <size_t dim>
Specs sort(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  wrap_dim(args.integer(dim), self.dim());
  const Dims strides = like_strides(self);
  return {{dims_of(self), self.scalar_type(), self.device(), strides},
          {dims_of(self), at::kLong, self.device(), strides}};
}

Specs topk(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  const int64_t dim = wrap_dim(args.integer(2), self.dim());
  const c10::SymInt count = args.sym_int(1);
  Dims sizes = dims_of(self);
  TORCH_CHECK(count >= 0 && count <= (sizes.empty() ? c10::SymInt(1) : sizes[dim]), "selected index k out of range");
  if (!sizes.empty()) sizes[dim] = count;
  return {{sizes, self.scalar_type(), self.device()}, {sizes, at::kLong, self.device()}};
}

/// cumsum and cumprod of integers give int64.
Specs cumulative(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  wrap_dim(args.integer(1), self.dim());
  const auto own = c10::isIntegralType(self.scalar_type(), /*includeBool=*/true) ? at::kLong : self.scalar_type();
  return {{dims_of(self), args.is_none(2) ? own : args[2].toScalarType(), self.device()}};
}

/// The largest or smallest elements so far, and their positions.
Specs with_positions(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  wrap_dim(args.integer(1), self.dim());
  return {{dims_of(self), self.scalar_type(), self.device()}, {dims_of(self), at::kLong, self.device()}};
}

/// (elements, tested elements, ...), of which at least one is a tensor.
Specs is_in(const Args& args) {
  if (!args[0].isTensor()) return {{{}, at::kBool, args.tensor(1).device()}};
  return {{dims_of(args.tensor(0)), at::kBool, args.tensor(0).device()}};
}

Specs logcumsumexp(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{dims_of(self), self.scalar_type(), self.device()}};
}

/// Writes to tensors that the caller allocated and returns nothing.
void fill_given(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

/// The positions of the first `size` nonzero elements.
Specs nonzero_static(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{{args.sym_int(1), c10::SymInt(self.dim())}, at::kLong, self.device()}};
}

/// The result has the shape of the values, which are argument `values`: (sorted, values, out_int32, ...) or
/// (values, boundaries, out_int32, ...).
template <size_t values>
Specs positions(const Args& args) {
  const auto dtype = args.boolean(2) ? at::kInt : at::kLong;
  const c10::Device device = args[values].isTensor() ? args.tensor(values).device() : args.tensor(1 - values).device();
  return {{args[values].isTensor() ? dims_of(args.tensor(values)) : Dims(), dtype, device}};
}

const ShapeRow kOrderingRows[] = {
#include "core/ops/ordering.def"
};

}  // namespace

void register_ordering() { add_shapes(kOrderingRows); }

}  // namespace stator::fake
