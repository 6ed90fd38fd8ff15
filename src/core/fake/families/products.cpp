#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

void require_same_kind(const Args& args, const at::Tensor& a, const at::Tensor& b) {
  require(a.scalar_type() == b.scalar_type(), args, "tensors differ in dtype");
  require(a.device() == b.device(), args, "tensors are on different devices");
}

Dims product_sizes(const Args& args, const at::Tensor& a, const at::Tensor& b) {
  require(a.dim() == 2 && b.dim() == 2, args, "not two matrices");
  require_same_kind(args, a, b);
  require(a.sym_size(1) == b.sym_size(0), args, "the inner dimensions differ");
  return {a.sym_size(0), b.sym_size(1)};
}

Dims batched_product_sizes(const Args& args, const at::Tensor& a, const at::Tensor& b) {
  require(a.dim() == 3 && b.dim() == 3, args, "not two batches of matrices");
  require_same_kind(args, a, b);
  require(a.sym_size(0) == b.sym_size(0) && a.sym_size(2) == b.sym_size(1), args, "the inner dimensions differ");
  return {a.sym_size(0), a.sym_size(1), b.sym_size(2)};
}

void require_expands(const Args& args, const at::Tensor& self, const Dims& sizes) {
  require(self.dim() <= static_cast<int64_t>(sizes.size()), args, "the added tensor has too many dimensions");
  const size_t shift = sizes.size() - static_cast<size_t>(self.dim());
  for (size_t i = shift; i < sizes.size(); ++i) {
    const c10::SymInt size = self.sym_sizes()[i - shift];
    require(size == sizes[i] || size == 1, args, "the added tensor does not broadcast");
  }
}

/// (self, other)
template <auto sizes_of>
void product(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_contiguous(args.tensor(0), sizes_of(args, args.tensor(0), args.tensor(1))));
}

/// (added, self, other, ...)
template <auto sizes_of>
void add_product(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Dims sizes = sizes_of(args, args.tensor(1), args.tensor(2));
  require_same_kind(args, args.tensor(0), args.tensor(1));
  require_expands(args, args.tensor(0), sizes);
  args.returns(new_contiguous(args.tensor(1), sizes));
}

/// (self, vector)
void mv(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &vector = args.tensor(1);
  require(self.dim() == 2 && vector.dim() == 1, args, "not a matrix and a vector");
  require_same_kind(args, self, vector);
  require(self.sym_size(1) == vector.sym_size(0), args, "the inner dimensions differ");
  args.returns(new_contiguous(vector, Dims{self.sym_size(0)}));
}

/// (added, self, vector, ...)
void addmv(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &added = args.tensor(0), &self = args.tensor(1), &vector = args.tensor(2);
  require(self.dim() == 2 && vector.dim() == 1 && added.dim() <= 1, args, "not a matrix and vectors");
  require_same_kind(args, self, vector);
  require_same_kind(args, added, self);
  require(self.sym_size(1) == vector.sym_size(0), args, "the inner dimensions differ");
  const Dims sizes{self.sym_size(0)};
  require_expands(args, added, sizes);
  args.returns(new_contiguous(self, sizes));
}

const ShapeRow kProductsRows[] = {
#include "core/ops/products.def"
};

}  // namespace

void register_products() { add_shapes(kProductsRows); }

}  // namespace stator::fake
