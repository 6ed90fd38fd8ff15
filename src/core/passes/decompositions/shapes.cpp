#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diagonal_scatter.h>
#include <ATen/ops/full.h>
#include <ATen/ops/select_scatter.h>
#include <ATen/ops/slice_scatter.h>
#include <ATen/ops/zeros.h>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Tensor;
using Sizes = std::vector<c10::SymInt>;

Tensor alias_copy(const Tensor& self) { return self.clone(); }

Tensor t_copy(const Tensor& self) { return self.t().clone(at::MemoryFormat::Contiguous); }

Tensor transpose_copy(const Tensor& self, int64_t a, int64_t b) {
  return self.transpose(a, b).clone(at::MemoryFormat::Contiguous);
}

Tensor unsqueeze_copy(const Tensor& self, int64_t dim) {
  return self.unsqueeze(dim).clone(at::MemoryFormat::Contiguous);
}

Tensor squeeze_copy(const Tensor& self) { return self.squeeze().clone(at::MemoryFormat::Contiguous); }

Tensor squeeze_copy_dim(const Tensor& self, int64_t dim) {
  return self.squeeze(dim).clone(at::MemoryFormat::Contiguous);
}

Tensor squeeze_copy_dims(const Tensor& self, const std::vector<int64_t>& dims) {
  return self.squeeze(dims).clone(at::MemoryFormat::Contiguous);
}

Tensor diagonal_copy(const Tensor& self, int64_t offset, int64_t a, int64_t b) {
  return self.diagonal(offset, a, b).clone(at::MemoryFormat::Contiguous);
}

Tensor expand_copy(const Tensor& self, const Sizes& sizes, bool implicit) {
  return self.expand_symint(sizes, implicit).clone(at::MemoryFormat::Contiguous);
}

Tensor unfold_copy(const Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return self.unfold(dim, size, step).clone(at::MemoryFormat::Contiguous);
}

Tensor select_backward(const Tensor& grad, const Sizes& sizes, int64_t dim, const c10::SymInt& index) {
  return at::select_scatter_symint(at::zeros_symint(sizes, grad.options()), grad, dim, index);
}

Tensor slice_backward(const Tensor& grad, const Sizes& sizes, int64_t dim, const c10::SymInt& start,
                      const c10::SymInt& end, const c10::SymInt& step) {
  return at::slice_scatter_symint(at::zeros_symint(sizes, grad.options()), grad, dim, start, end, step);
}

Tensor diagonal_backward(const Tensor& grad, const Sizes& sizes, int64_t offset, int64_t a, int64_t b) {
  return at::diagonal_scatter(at::zeros_symint(sizes, grad.options()), grad, offset, a, b);
}

Tensor trace(const Tensor& self) { return self.diagonal().sum(); }

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) rows.push_back(tensor.unsqueeze(dim));
  return at::cat(rows, dim);
}

Tensor dot(const Tensor& self, const Tensor& other) { return (self * other).sum(self.scalar_type()); }

}  // namespace

c10::ArrayRef<DecompositionRow> shapes_rows() {
  static constexpr DecompositionRow rows[] = {
      row<alias_copy>("alias_copy"),
      row<t_copy>("t_copy"),
      row<transpose_copy>("transpose_copy.int"),
      row<unsqueeze_copy>("unsqueeze_copy"),
      row<squeeze_copy>("squeeze_copy"),
      row<squeeze_copy_dim>("squeeze_copy.dim"),
      row<squeeze_copy_dims>("squeeze_copy.dims"),
      row<diagonal_copy>("diagonal_copy"),
      row<expand_copy>("expand_copy"),
      row<unfold_copy>("unfold_copy"),
      row<select_backward>("select_backward"),
      row<diagonal_backward>("diagonal_backward"),
      row<slice_backward>("slice_backward"),
      row<trace>("trace"),
      row<stack>("stack"),
      row<dot>("dot"),
  };
  return rows;
}

}  // namespace stator::passes
