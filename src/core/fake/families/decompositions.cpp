#include <ATen/Context.h>

#include "core/fake/families/matrices.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

/// Decompositions of matrices. These shape functions are for symbolic sizes, except those that describe a CUDA kernel.
namespace stator::fake {
namespace {

/// The first argument: a batch of matrices of a dtype and on a device that the shape functions know.
const at::Tensor& checked_matrix(const Args& args, bool square) {
  const at::Tensor& matrix = args.tensor(0);
  require(is_on_known_device(matrix), args, "the kernel of this device is not known");
  require(matrix.dim() >= 2, args, "not matrices");
  if (square) require_square(args, matrix);
  require_linalg_dtype(args, matrix);
  return matrix;
}

/// The sizes of a batch, with those of a matrix or vector in place of the last two.
Dims batch_of(const at::Tensor& matrix, std::initializer_list<c10::SymInt> last) {
  Dims sizes(matrix.sym_sizes().begin(), matrix.sym_sizes().end() - 2);
  sizes.insert(sizes.end(), last.begin(), last.end());
  return sizes;
}

at::Tensor column_major_like(const at::Tensor& matrix) {
  return new_column_major(matrix, matrix_sizes(matrix), matrix.scalar_type());
}

at::Tensor integers(const at::Tensor& matrix, const Dims& sizes) {
  return make_contiguous(sizes, at::kInt, matrix.device());
}

/// A matrix of the same sizes, and an error code for each.
template <bool square>
void with_info(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& matrix = checked_matrix(args, square);
  args.returns(column_major_like(matrix), integers(matrix, batch_of(matrix, {})));
}

/// The determinant, or its sign and logarithm; the decomposition and its pivots.
template <int values>
void determinant(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& matrix = checked_matrix(args, true);
  const Dims batch = batch_of(matrix, {});
  const at::Tensor value = new_contiguous(matrix, batch);
  const at::Tensor pivots = integers(matrix, batch_of(matrix, {matrix.sym_size(-1)}));
  if constexpr (values == 1) {
    args.returns(value, column_major_like(matrix), pivots);
  } else {
    const auto real = c10::toRealValueType(matrix.scalar_type());
    args.returns(value, make_contiguous(batch, real, matrix.device()), column_major_like(matrix), pivots);
  }
}

/// (matrix, UPLO, compute_v)
void eigh(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& matrix = checked_matrix(args, true);
  const auto real = c10::toRealValueType(matrix.scalar_type());
  args.returns(make_contiguous(batch_of(matrix, {matrix.sym_size(-1)}), real, matrix.device()),
               args.boolean(2) ? column_major_like(matrix) : new_contiguous(matrix, Dims{c10::SymInt(0)}));
}

/// (matrix, full_matrices, compute_uv, driver). cuSOLVER gives the right vectors as rows.
void svd(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& matrix = checked_matrix(args, false);
  const c10::SymInt rows = matrix.sym_size(-2), columns = matrix.sym_size(-1), rank = rows.min(columns);
  const bool full = args.boolean(1);
  const auto real = c10::toRealValueType(matrix.scalar_type());
  const at::Tensor values = make_contiguous(batch_of(matrix, {rank}), real, matrix.device());
  if (!args.boolean(2)) {
    const Dims none{c10::SymInt(0)};
    return args.returns(new_contiguous(matrix, none), values, new_contiguous(matrix, none));
  }
  // Whether the right vectors are a conjugated view depends on cuSOLVER's algorithm, which depends on data.
  require(!matrix.is_cuda() || !matrix.is_complex(), args, "the conjugate bit of the result");
  const Dims right = batch_of(matrix, {full ? columns : rank, columns});
  const bool as_rows = matrix.is_cuda() && at::globalContext().linalgPreferredBackend() != at::LinalgBackend::Magma;
  args.returns(new_column_major(matrix, batch_of(matrix, {rows, full ? rows : rank}), matrix.scalar_type()), values,
               as_rows ? new_contiguous(matrix, right) : new_column_major(matrix, right, matrix.scalar_type()));
}

/// (matrix, mode)
void qr(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& matrix = checked_matrix(args, false);
  const auto mode = args[1].toStringView();
  require(mode == "reduced" || mode == "complete" || mode == "r", args, "an unknown mode");
  const c10::SymInt rows = matrix.sym_size(-2), columns = matrix.sym_size(-1), rank = rows.min(columns);
  const c10::SymInt inner = mode == "complete" ? rows : rank;
  const at::ScalarType dtype = matrix.scalar_type();
  args.returns(mode == "r" ? new_contiguous(matrix, Dims{c10::SymInt(0)})
                           : new_column_major(matrix, batch_of(matrix, {rows, inner}), dtype),
               new_column_major(matrix, batch_of(matrix, {inner, columns}), dtype));
}

/// (right side, matrix, upper)
void cholesky_solve_symbolic(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &right = checked_matrix(args, false), &matrix = args.tensor(1);
  require_square(args, matrix);
  require(right.scalar_type() == matrix.scalar_type() && right.sym_size(-2) == matrix.sym_size(-1), args,
          "the matrices do not match");
  Dims sizes = broadcast_batches(args, right, matrix);
  sizes.push_back(right.sym_size(-2));
  sizes.push_back(right.sym_size(-1));
  args.returns(new_column_major(right, sizes, right.scalar_type()));
}

void lu_factor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& matrix = checked_matrix(args, false);
  const c10::SymInt rank = matrix.sym_size(-2).min(matrix.sym_size(-1));
  args.returns(column_major_like(matrix), integers(matrix, batch_of(matrix, {rank})),
               integers(matrix, batch_of(matrix, {})));
}

/// (matrix, right side, left, check_errors). The right side is a batch of matrices.
void solve_ex(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &matrix = checked_matrix(args, true), &right = args.tensor(1);
  require(right.scalar_type() == matrix.scalar_type(), args, "tensors differ in dtype");
  const c10::SymInt length = matrix.sym_size(-1);
  const bool left = args.boolean(2);
  // As linalg_solve_is_vector_rhs: a vector for each matrix.
  const auto batch = matrix.sym_sizes().slice(0, static_cast<size_t>(matrix.dim()) - 1);
  const bool is_vector = right.dim() == 1 || (right.dim() + 1 == matrix.dim() && right.sym_sizes() == batch);
  require(!is_vector || left, args, "a vector on the right side");
  const at::Tensor pivots = integers(matrix, batch_of(matrix, {length})), info = integers(matrix, batch_of(matrix, {}));
  if (is_vector) {
    const Dims sizes = batch_of(matrix, {length});
    require(right.sym_size(-1) == length, args, "the matrices do not match");
    // The kernel treats a batch of vectors as one matrix and returns it column-major.
    at::Tensor solution =
        sizes.size() == 1 ? new_contiguous(right, sizes) : new_column_major(right, sizes, right.scalar_type());
    return args.returns(std::move(solution), column_major_like(matrix), pivots, info);
  }
  require(right.dim() >= 2 && right.sym_size(left ? -2 : -1) == length, args, "the matrices do not match");
  Dims sizes = broadcast_batches(args, matrix, right);
  sizes.push_back(right.sym_size(-2));
  sizes.push_back(right.sym_size(-1));
  args.returns(left ? new_column_major(right, sizes, right.scalar_type()) : new_contiguous(right, sizes),
               column_major_like(matrix), pivots, info);
}

const ShapeRow kDecompositionsRows[] = {
#include "core/ops/decompositions.def"
};

}  // namespace

void register_decompositions() { add_shapes(kDecompositionsRows); }

}  // namespace stator::fake
