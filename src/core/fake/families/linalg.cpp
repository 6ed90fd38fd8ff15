#include <tuple>

#include "core/fake/families/matrices.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/iterator.h"
#include "core/fake/meta_tier.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

/// The layouts below are those of LAPACK, and of the libraries that the CUDA kernels call.
void require_known_device(const Args& args) {
  require(is_on_known_device(args.tensor(0)), args, "the kernel of this device is not known");
}

/// A column-major tensor with the shape of the first argument, a batch of square matrices.
void square_like_first(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require_known_device(args);
  require_square(args, self);
  require_linalg_dtype(args, self);
  args.returns(self.sym_numel() == 0 ? new_like(self, at::MemoryFormat::Contiguous)
                                     : new_column_major(self, matrix_sizes(self), self.scalar_type()));
}

void geqrf(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require_known_device(args);
  require(self.dim() >= 2, args, "not matrices");
  require_linalg_dtype(args, self);
  Dims tau = matrix_sizes(self);
  const c10::SymInt rank = tau[tau.size() - 1].min(tau[tau.size() - 2]);
  tau.pop_back();
  tau.back() = rank;
  args.returns(new_column_major(self, matrix_sizes(self), self.scalar_type()), new_contiguous(self, tau));
}

void linalg_eig(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require_known_device(args);
  require_square(args, self);
  require_linalg_dtype(args, self);
  const at::ScalarType dtype = at::toComplexType(self.scalar_type());
  Dims values = matrix_sizes(self);
  values.pop_back();
  // The CUDA kernel copies the vectors into a row-major result.
  args.returns(make_contiguous(values, dtype, self.device()),
               self.is_cuda() ? make_contiguous(self.sym_sizes(), dtype, self.device())
                              : new_column_major(self, matrix_sizes(self), dtype));
}

void linalg_eigvals(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require_known_device(args);
  require_square(args, self);
  require_linalg_dtype(args, self);
  Dims values = matrix_sizes(self);
  values.pop_back();
  args.returns(make_contiguous(values, at::toComplexType(self.scalar_type()), self.device()));
}

void householder_product(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &tau = args.tensor(1);
  require_known_device(args);
  require(self.dim() >= 2 && tau.dim() == self.dim() - 1 && self.sym_size(-2) >= self.sym_size(-1) &&
              self.sym_size(-1) >= tau.sym_size(-1) && self.scalar_type() == tau.scalar_type(),
          args, "reflectors and factors do not match");
  require_linalg_dtype(args, self);
  args.returns(new_column_major(self, matrix_sizes(self), self.scalar_type()));
}

void ormqr(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& other = args.tensor(2);
  require_known_device(args);
  require(other.dim() >= 2 && args.tensor(0).dim() == other.dim(), args, "not matrices");
  require(args.tensor(0).scalar_type() == other.scalar_type(), args, "tensors differ in dtype");
  require_linalg_dtype(args, other);
  args.returns(new_column_major(other, matrix_sizes(other), other.scalar_type()));
}

void linalg_matrix_exp(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require_known_device(args);
  require_square(args, self);
  require(self.is_floating_point() || self.is_complex(), args, "a dtype without a kernel");
  const bool elementwise = self.sym_numel() == 0 || self.sym_size(-1) == 1;
  args.returns(elementwise ? new_like(self) : new_like(self, at::MemoryFormat::Contiguous));
}

void solve_triangular(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &matrix = args.tensor(0), &right = args.tensor(1);
  require_known_device(args);
  require_square(args, matrix);
  require(right.dim() >= 2 && right.scalar_type() == matrix.scalar_type(), args, "tensors differ in dtype or rank");
  require_linalg_dtype(args, matrix);
  require(!matrix.is_conj() && !right.is_conj(), args, "a conjugated view changes the result's layout");
  const bool left = args.boolean(3);
  require(right.sym_size(left ? -2 : -1) == matrix.sym_size(-1), args, "the matrices do not match");
  Dims sizes = broadcast_batches(args, matrix, right);
  sizes.push_back(right.sym_size(-2));
  sizes.push_back(right.sym_size(-1));
  args.returns(new_column_major(right, sizes, right.scalar_type()));
}

void cholesky_solve(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& right = args.tensor(0);
  require_known_device(args);
  require(right.dim() >= 2, args, "not matrices");
  args.returns(new_column_major(right, matrix_sizes(right), right.scalar_type()));
}

/// An operator that returns nothing and raises if a factorisation failed. The run of the graph makes the check.
void check_errors(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

void dot(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &a = args.tensor(0), &b = args.tensor(1);
  require(a.dim() == 1 && b.dim() == 1 && a.sym_size(0) == b.sym_size(0) && a.scalar_type() == b.scalar_type(), args,
          "not two vectors of one length and dtype");
  args.returns(new_contiguous(a, Dims{}));
}

void addbmm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &a = args.tensor(1), &b = args.tensor(2);
  require(a.dim() == 3 && b.dim() == 3 && a.sym_size(0) == b.sym_size(0) && a.sym_size(2) == b.sym_size(1), args,
          "the batches of matrices do not match");
  require(self.scalar_type() == a.scalar_type() && a.scalar_type() == b.scalar_type(), args, "tensors differ in dtype");
  args.returns(new_contiguous(self, Dims{a.sym_size(1), b.sym_size(2)}));
}

void addbmm_(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &a = args.tensor(1), &b = args.tensor(2);
  require(a.dim() == 3 && b.dim() == 3 && a.sym_size(0) == b.sym_size(0) && a.sym_size(2) == b.sym_size(1) &&
              self.sym_sizes() == c10::SymIntArrayRef(Dims{a.sym_size(1), b.sym_size(2)}),
          args, "the batches of matrices do not match");
  require(self.scalar_type() == a.scalar_type() && a.scalar_type() == b.scalar_type(), args, "tensors differ in dtype");
  args.returns(self);
}

void addr(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &a = args.tensor(1), &b = args.tensor(2);
  require(a.dim() == 1 && b.dim() == 1 && self.dim() <= 2, args, "not two vectors and a matrix");
  const c10::SymInt rows = a.sym_size(0), columns = b.sym_size(0);
  Dims strides{c10::SymInt(0), c10::SymInt(0)};
  for (int64_t i = 0; i < self.dim(); ++i) {
    const c10::SymInt size = self.sym_size(-1 - i), wanted = i == 0 ? columns : rows;
    require(size == wanted || size == 1, args, "the matrix does not broadcast");
    if (size != 1 || wanted == 1) strides[static_cast<size_t>(1 - i)] = self.sym_stride(-1 - i);
  }
  const at::Tensor wide = make_view(self, Dims{rows, columns}, strides, self.sym_storage_offset());
  const at::Tensor column =
      make_view(a, Dims{rows, c10::SymInt(1)}, Dims{a.sym_stride(0), c10::SymInt(1)}, a.sym_storage_offset());
  const Inputs inputs{&wide, &column, &b};
  args.returns(iterate(inputs, common_dtype(inputs), common_device(inputs)));
}

void cdist_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &a = args.tensor(0), &b = args.tensor(1);
  require_known_device(args);
  require(a.dim() >= 2 && b.dim() >= 2 && a.sym_size(-1) == b.sym_size(-1) && a.scalar_type() == b.scalar_type(), args,
          "not two sets of points");
  Dims sizes = broadcast_batches(args, a, b);
  sizes.push_back(a.sym_size(-2));
  sizes.push_back(b.sym_size(-2));
  args.returns(new_contiguous(a, sizes));
}

void cdist_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &a = args.tensor(1), &b = args.tensor(2);
  require(is_on_known_device(a), args, "the kernel of this device is not known");
  require(a.sym_numel() != 0 && b.sym_numel() != 0, args, "an empty set of points");
  Dims sizes = broadcast_batches(args, a, b);
  sizes.push_back(a.sym_size(-2));
  sizes.push_back(a.sym_size(-1));
  args.returns(new_contiguous(a, sizes));
}

void pdist_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require(self.dim() == 2, args, "not a set of points");
  const c10::SymInt count = self.sym_size(0);
  args.returns(new_contiguous(self, Dims{count * (count - 1) / 2}));
}

void pdist_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

/// The sizes of the right side of a system of equations, with the batches of both sides.
Dims broadcast_right(const Args& args, const at::Tensor& matrix, const at::Tensor& right) {
  require(matrix.dim() >= 2 && right.dim() >= 2 && matrix.scalar_type() == right.scalar_type(), args,
          "tensors differ in dtype or rank");
  require_linalg_dtype(args, right);
  Dims sizes = broadcast_batches(args, matrix, right);
  sizes.push_back(right.sym_size(-2));
  sizes.push_back(right.sym_size(-1));
  return sizes;
}

/// `(LU, pivots, B, left, adjoint)`. Solving from the right leaves the conjugate bit set on a complex result.
void lu_solve(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &factors = args.tensor(0), &right = args.tensor(2);
  const bool left = args.boolean(3);
  require_known_device(args);
  require_square(args, factors);
  const bool is_conjugate = right.is_complex() && !left;
  require(!is_conjugate || right.is_cpu(), args, "the conjugate bit of the result");
  const Dims sizes = broadcast_right(args, factors, right);
  require(right.sym_size(left ? -2 : -1) == factors.sym_size(-1), args, "the matrices do not match");
  const at::Tensor made = left ? new_column_major(right, sizes, right.scalar_type()) : new_contiguous(right, sizes);
  if (is_conjugate) made._set_conj(true);
  args.returns(made);
}

/// The triangular factors of a matrix, both row-major, and the permutation; empty tensors in place of what is not asked
/// for.
void return_factors(Args& args, const at::Tensor& matrix, bool permutes, bool factors) {
  require_known_device(args);
  require(matrix.dim() >= 2, args, "not matrices");
  require_linalg_dtype(args, matrix);
  const c10::SymInt rows = matrix.sym_size(-2), columns = matrix.sym_size(-1), rank = rows.min(columns);
  auto part = [&](bool is_asked, const c10::SymInt& height, const c10::SymInt& width) {
    Dims sizes{c10::SymInt(0)};
    if (is_asked) sizes = matrix_sizes(matrix);
    if (is_asked) std::tie(sizes[sizes.size() - 2], sizes[sizes.size() - 1]) = std::tie(height, width);
    return new_contiguous(matrix, sizes);
  };
  args.returns(part(permutes, rows, rows), part(factors, rows, rank), part(factors, rank, columns));
}

void lu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  return_factors(args, args.tensor(0), args.boolean(1), true);
}

/// `(LU, pivots, unpack_data, unpack_pivots)`
void lu_unpack(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(1).scalar_type() == at::kInt, args, "pivots of another dtype");
  return_factors(args, args.tensor(0), args.boolean(3), args.boolean(2));
}

void ldl_factor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require_known_device(args);
  require_square(args, self);
  require_linalg_dtype(args, self);
  Dims sizes = matrix_sizes(self);
  const at::Tensor factors = new_column_major(self, sizes, self.scalar_type());
  sizes.pop_back();
  const at::Tensor pivots = make_contiguous(sizes, at::kInt, self.device());
  sizes.pop_back();
  args.returns(factors, pivots, make_contiguous(sizes, at::kInt, self.device()));
}

/// `(LD, pivots, B, hermitian)`
void ldl_solve(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &factors = args.tensor(0), &pivots = args.tensor(1), &right = args.tensor(2);
  require_known_device(args);
  require_square(args, factors);
  require(right.dim() >= 2 && pivots.dim() == factors.dim() - 1 && right.sym_size(-2) == factors.sym_size(-1), args,
          "the matrices do not match");
  for (int64_t i = 0; i < pivots.dim(); ++i)
    require(pivots.sym_size(i) == factors.sym_size(i), args, "the pivots do not match");
  args.returns(new_column_major(right, broadcast_right(args, factors, right), right.scalar_type()));
}

/// `(self, A, ...)`: the solution, and a copy of the matrices with the batches of both.
void triangular_solve(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &right = args.tensor(0), &matrix = args.tensor(1);
  require_known_device(args);
  require_square(args, matrix);
  const Dims sizes = broadcast_right(args, matrix, right);
  require(right.sym_size(-2) == matrix.sym_size(-2), args, "the matrices do not match");
  Dims copied(sizes);
  copied[copied.size() - 2] = copied[copied.size() - 1] = matrix.sym_size(-1);
  args.returns(new_column_major(right, sizes, right.scalar_type()),
               new_column_major(matrix, copied, matrix.scalar_type()));
}

const ShapeRow kLinalgRows[] = {
#include "core/ops/linalg.def"
};

}  // namespace

void register_linalg() { add_shapes(kLinalgRows); }

}  // namespace stator::fake
