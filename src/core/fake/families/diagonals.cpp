#include "core/fake/families/shape_helpers.h"
#include "core/fake/families/view_geometry.h"
#include "core/fake/iterator.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

/// Diagonals and triangles of matrices. These shape functions are for symbolic sizes.
namespace stator::fake {
namespace {

/// (self, offset, dim1, dim2)
ViewGeometry diagonal_of(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  const int64_t offset = args.integer(1);
  const int64_t rows = c10::maybe_wrap_dim(args.integer(2), self.dim()),
                columns = c10::maybe_wrap_dim(args.integer(3), self.dim());
  TORCH_CHECK(rows != columns, "diagonal dimensions cannot be identical ", args.integer(2), ", ", args.integer(3));
  ViewGeometry view(self);
  const c10::SymInt height = view.sizes[rows] + std::min<int64_t>(offset, 0),
                    width = view.sizes[columns] - std::max<int64_t>(offset, 0);
  const c10::SymInt length = height.min(width).max(0), stride = view.strides[rows] + view.strides[columns];
  // An empty diagonal begins where the tensor does.
  if (offset != 0 && length != 0)
    view.offset = view.offset + (offset > 0 ? view.strides[columns] * offset : view.strides[rows] * -offset);
  view.erase(std::max(rows, columns));
  view.erase(std::min(rows, columns));
  view.sizes.push_back(length);
  view.strides.push_back(stride);
  return view;
}

void diagonal(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(diagonal_of(args).make(args.tensor(0)));
}

void diagonal_copy(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(diagonal_of(args).make(args.tensor(0)), at::MemoryFormat::Contiguous));
}

/// (self, offset, dim1, dim2)
void diag_embed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t rank = self.dim() + 1;
  const int64_t a = c10::maybe_wrap_dim(args.integer(2), rank), b = c10::maybe_wrap_dim(args.integer(3), rank);
  TORCH_CHECK(a != b && self.dim() > 0, "diagonal dimensions cannot be identical ", args.integer(2), ", ",
              args.integer(3));
  Dims sizes = dims_of(self);
  const c10::SymInt length = sizes.back() + std::abs(args.integer(1));
  sizes.pop_back();
  sizes.insert(sizes.begin() + std::min(a, b), length);
  sizes.insert(sizes.begin() + std::max(a, b), length);
  args.returns(new_contiguous(self, sizes));
}

void triangle(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(0).dim() >= 2, args, "not matrices");
  args.returns(new_like(args.tensor(0), at::MemoryFormat::Contiguous));
}

/// (self, p, dim, maxnorm)
void renorm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(0).dim() >= 2, args, "not matrices");
  args.returns(new_like(args.tensor(0), at::MemoryFormat::Contiguous));
}

/// (self, other, dim)
void cross(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &other = args.tensor(1);
  require(self.dim() == other.dim() && self.dim() > 0, args, "tensors differ in rank");
  const int64_t dim = wrap_dim(args.integer(2), self.dim());
  require(self.sym_size(dim) == 3 && other.sym_size(dim) == 3, args, "not vectors of three numbers");
  args.returns(new_contiguous(self, broadcast_sizes({&self, &other})));
}

const ShapeRow kDiagonalsRows[] = {
#include "core/ops/diagonals.def"
};

}  // namespace

void register_diagonals() { add_shapes(kDiagonalsRows); }

}  // namespace stator::fake
