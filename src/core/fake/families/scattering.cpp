#include <ATen/ops/diagonal.h>
#include <ATen/ops/select.h>
#include <ATen/ops/slice.h>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/families/view_geometry.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

/// Operators that read or write a tensor at positions that another tensor gives. These shape functions are for symbolic
/// sizes.
namespace stator::fake {
namespace {

/// Whether each size of `index` but that of `skipped` is at most the size of `tensor`.
bool fits_into(const at::Tensor& index, const at::Tensor& tensor, std::optional<int64_t> skipped) {
  const int64_t rank = std::max<int64_t>(index.dim(), 1);
  if (std::max<int64_t>(tensor.dim(), 1) != rank) return false;
  const auto size_of = [](const at::Tensor& t, int64_t i) { return t.dim() == 0 ? c10::SymInt(1) : t.sym_size(i); };
  for (int64_t i = 0; i < rank; ++i) {
    if (skipped != i && is_less(size_of(tensor, i), size_of(index, i))) return false;
  }
  return true;
}

/// (self, dim, index, sparse_grad)
void gather(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &index = args.tensor(2);
  const int64_t dim = wrap_dim(args.integer(1), self.dim());
  const bool is_empty = index.sym_numel() == 0;
  require(is_empty || index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, args,
          "the index is not of integers");
  require(is_empty || fits_into(index, self, dim), args, "the index has more elements than the tensor");
  args.returns(new_contiguous(self, index.sym_sizes()));
}

/// (self, dim, index, source or value, ...)
void scatter(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &index = args.tensor(2);
  const int64_t dim = wrap_dim(args.integer(1), self.dim());
  const bool is_empty = index.sym_numel() == 0;
  require(is_empty || index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, args,
          "the index is not of integers");
  require(is_empty || fits_into(index, self, dim), args, "the index has more elements than the tensor");
  if (args[3].isTensor()) {
    require(args.tensor(3).scalar_type() == self.scalar_type(), args, "source and target differ in dtype");
    require(is_empty || fits_into(index, args.tensor(3), std::nullopt), args,
            "the index has more elements than the source");
  }
  args.returns(new_contiguous(self, self.sym_sizes()));
}

/// (self, dim, index, source, ...)
template <size_t source_at>
void index_into(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &index = args.tensor(2), &source = args.tensor(source_at);
  const int64_t dim = wrap_dim(args.integer(1), self.dim());
  require(index.dim() <= 1 && (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt), args,
          "the index is not a vector of integers");
  require(self.scalar_type() == source.scalar_type() && self.dim() == source.dim(), args,
          "source and target differ in dtype or rank");
  for (int64_t i = 0; i < self.dim(); ++i) {
    require(source.sym_size(i) == (i == dim ? index.sym_numel() : self.sym_size(i)), args,
            "source and target differ in shape");
  }
  args.returns(new_contiguous(self, self.sym_sizes()));
}

/// A copy of a tensor with its strides and offset, in which `part`, a view of the tensor, gets the values of `source`.
void scatter_into_copy(Args& args, const at::Tensor& part) {
  const at::Tensor &self = args.tensor(0), &source = args.tensor(1);
  require(part.sym_sizes() == source.sym_sizes(), args, "the source has another shape than the part");
  for (const c10::SymInt& stride : self.sym_strides()) {
    require(!always_equal(stride, 0), args, "the layout of a copy of a tensor with overlaps");
  }
  const ViewGeometry copy(self);
  args.returns(copy.make(make_fake(self.sym_sizes(), self.sym_strides(), self.scalar_type(), self.device())));
}

/// (self, source, dim, index)
void select_scatter(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  scatter_into_copy(args, at::select_symint(args.tensor(0), args.integer(2), args.sym_int(3)));
}

/// (self, source, dim, start, end, step)
void slice_scatter(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto bound = [&](size_t i) { return args.is_none(i) ? std::nullopt : std::optional(args.sym_int(i)); };
  scatter_into_copy(args, at::slice_symint(args.tensor(0), args.integer(2), bound(3), bound(4), args.sym_int(5)));
}

/// (grad, input_sizes, dim, start, end, step)
void slice_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& grad = args.tensor(0);
  const auto sizes = args.sym_ints(1);
  const at::Tensor whole = new_contiguous(grad, c10::SymIntArrayRef(sizes));
  const at::Tensor part = at::slice_symint(whole, args.integer(2), args.sym_int(3), args.sym_int(4), args.sym_int(5));
  require(part.sym_sizes() == grad.sym_sizes(), args, "the gradient has another shape");
  args.returns(whole);
}

/// (self, source, offset, dim1, dim2)
void diagonal_scatter(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  scatter_into_copy(args, at::diagonal(args.tensor(0), args.integer(2), args.integer(3), args.integer(4)));
}

const ShapeRow kScatteringRows[] = {
#include "core/ops/scattering.def"
};

}  // namespace

void register_scattering() { add_shapes(kScatteringRows); }

}  // namespace stator::fake
