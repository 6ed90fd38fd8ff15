#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diagonal_scatter.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/le.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Scalar;
using at::Tensor;
using c10::SymInt;
using decompositions::dims_between;
using Dims = std::vector<int64_t>;
using Maybe = std::optional<Tensor>;
using Sizes = std::vector<SymInt>;
using Tensors = std::optional<std::vector<Tensor>>;

Tensor transpose(const Tensor& self, int64_t a, int64_t b) {
  const int64_t first = at::maybe_wrap_dim(a, self.dim()), second = at::maybe_wrap_dim(b, self.dim());
  if (first == second) return at::alias(self);
  Dims order = dims_between(0, self.dim());
  std::swap(order[first], order[second]);
  return self.permute(order);
}

Maybe t(const Tensor& self) {
  if (self.dim() > 2) return std::nullopt;
  return self.dim() < 2 ? at::alias(self) : self.transpose(0, 1);
}

Tensor squeeze_dim(const Tensor& self, int64_t dim) { return self.squeeze(Dims{dim}); }

Maybe squeeze(const Tensor& self) {
  Dims dims;
  for (int64_t dim = 0; dim < self.dim(); ++dim)
    if (self.sym_size(dim).maybe_as_int() == 1) dims.push_back(dim);
  return self.squeeze(dims);
}

Tensor detach(const Tensor& self) { return at::alias(self); }

Tensor plain_view(const Tensor& self, const Sizes& sizes) { return self.view_symint(sizes); }

Tensor view_with_strides(const Tensor& self, const Sizes& sizes, const Sizes&) { return self.view_symint(sizes); }

Tensors unbind(const Tensor& self, int64_t dim) {
  const auto count = self.sym_size(dim).maybe_as_int();
  if (!count) return std::nullopt;
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < *count; ++i) rows.push_back(self.select(dim, i));
  return rows;
}

/// Pieces along a dimension.
std::vector<Tensor> pieces(const Tensor& self, const Sizes& sizes, int64_t dim, bool copied) {
  std::vector<Tensor> made;
  SymInt start = 0;
  for (const SymInt& size : sizes) {
    const Tensor piece = self.slice_symint(dim, start, start + size);
    made.push_back(copied ? piece.clone(at::MemoryFormat::Contiguous) : piece);
    start = start + size;
  }
  return made;
}

Tensors split(const Tensor& self, const SymInt& size, int64_t dim) {
  const auto total = self.sym_size(dim).maybe_as_int(), length = size.maybe_as_int();
  if (!total || !length || *length <= 0) return std::nullopt;
  Sizes sizes;
  for (int64_t start = 0; start < *total || start == 0; start += *length)
    sizes.emplace_back(std::min(*length, *total - start));
  return pieces(self, sizes, dim, false);
}

/// Whether the sizes are known to be those of the dimension; the operator itself raises if they are not.
bool fits(const Tensor& self, const Sizes& sizes, int64_t dim) {
  int64_t sum = 0;
  for (const SymInt& size : sizes) {
    const auto length = size.maybe_as_int();
    if (!length || *length < 0) return false;
    sum += *length;
  }
  return self.sym_size(dim).maybe_as_int() == sum;
}

Tensors split_with_sizes(const Tensor& self, const Sizes& sizes, int64_t dim) {
  if (!fits(self, sizes, dim)) return std::nullopt;
  return pieces(self, sizes, dim, false);
}

Tensors split_with_sizes_copy(const Tensor& self, const Sizes& sizes, int64_t dim) {
  if (!fits(self, sizes, dim)) return std::nullopt;
  return pieces(self, sizes, dim, true);
}

// ---- elements in another order

Tensor rolled(const Tensor& self, const SymInt& shift, int64_t dim) {
  const SymInt size = self.sym_size(dim);
  if (size.maybe_as_int() == 0) return self.clone();
  const SymInt start = ((size - shift) % size + size) % size;
  return at::cat({self.slice_symint(dim, start, size), self.slice_symint(dim, 0, start)}, dim);
}

Maybe roll(const Tensor& self, const Sizes& shifts, const Dims& dims) {
  if (dims.empty() && shifts.size() == 1)
    return rolled(self.reshape(-1), shifts[0], 0).reshape_symint(self.sym_sizes());
  if (dims.size() != shifts.size() || self.dim() == 0) return std::nullopt;
  Tensor made = self;
  for (size_t i = 0; i < dims.size(); ++i) made = rolled(made, shifts[i], dims[i]);
  return made;
}

Maybe rot90(const Tensor& self, int64_t k, const Dims& dims) {
  if (dims.size() != 2 || self.dim() < 2) return std::nullopt;
  if (at::maybe_wrap_dim(dims[0], self.dim()) == at::maybe_wrap_dim(dims[1], self.dim())) return std::nullopt;
  const int64_t turns = ((k % 4) + 4) % 4;
  if (turns == 0) return self.clone(at::MemoryFormat::Contiguous);
  if (turns == 2) return self.flip(dims);
  return self.flip(Dims{dims[turns == 1 ? 1 : 0]}).transpose(dims[0], dims[1]);
}

/// Whether pixels can be shuffled by this factor, whose square must not overflow. If not, the operator itself raises.
bool can_shuffle(const Tensor& self, int64_t factor) {
  return self.dim() >= 3 && factor > 0 && factor <= std::numeric_limits<int32_t>::max();
}

Maybe pixel_shuffle(const Tensor& self, int64_t factor) {
  if (!can_shuffle(self, factor)) return std::nullopt;
  const int64_t first = self.dim() - 3;
  Sizes batch(self.sym_sizes().begin(), self.sym_sizes().begin() + first), split = batch, joined = batch;
  const SymInt channels = self.sym_size(first) / (factor * factor), r = factor;
  const SymInt height = self.sym_size(first + 1), width = self.sym_size(first + 2);
  for (const SymInt& size : {channels, r, r, height, width}) split.push_back(size);
  for (const SymInt& size : {channels, height * r, width * r}) joined.push_back(size);
  Dims order = dims_between(0, first);
  for (const int64_t place : {0, 3, 1, 4, 2}) order.push_back(first + place);
  return self.reshape_symint(split).permute(order).reshape_symint(joined);
}

Maybe pixel_unshuffle(const Tensor& self, int64_t factor) {
  if (!can_shuffle(self, factor)) return std::nullopt;
  const int64_t first = self.dim() - 3;
  Sizes batch(self.sym_sizes().begin(), self.sym_sizes().begin() + first), split = batch, joined = batch;
  const SymInt channels = self.sym_size(first), r = factor;
  const SymInt height = self.sym_size(first + 1) / r, width = self.sym_size(first + 2) / r;
  for (const SymInt& size : {channels, height, r, width, r}) split.push_back(size);
  for (const SymInt& size : {channels * r * r, height, width}) joined.push_back(size);
  Dims order = dims_between(0, first);
  for (const int64_t place : {0, 2, 4, 1, 3}) order.push_back(first + place);
  return self.reshape_symint(split).permute(order).reshape_symint(joined);
}

Maybe channel_shuffle(const Tensor& self, const SymInt& groups) {
  if (self.dim() < 3 || groups.maybe_as_int().value_or(1) <= 0) return std::nullopt;
  const auto all = self.sym_sizes();
  Sizes split{all[0], groups, all[1] / groups};
  split.insert(split.end(), all.begin() + 2, all.end());
  return self.reshape_symint(split).transpose(1, 2).reshape_symint(all);
}

// ---- masks

Tensor counted(const Tensor& like, const SymInt& count) {
  return at::arange(Scalar(count), like.options().dtype(at::kLong).layout(at::kStrided));
}

Tensor no_element(const Tensor& like) { return at::zeros({}, like.options()); }

Maybe triangle(const Tensor& self, const SymInt& diagonal, bool is_lower) {
  if (self.dim() < 2) return std::nullopt;
  const Tensor row = counted(self, self.sym_size(-2)).unsqueeze(-1), column = counted(self, self.sym_size(-1));
  const Tensor place = column - row;
  const Tensor kept = is_lower ? at::le(place, Scalar(diagonal)) : at::ge(place, Scalar(diagonal));
  return at::where(kept, self, no_element(self));
}
Maybe tril(const Tensor& self, const SymInt& diagonal) { return triangle(self, diagonal, true); }
Maybe triu(const Tensor& self, const SymInt& diagonal) { return triangle(self, diagonal, false); }

Maybe diag_embed(const Tensor& self, int64_t offset, int64_t a, int64_t b) {
  const int64_t rank = self.dim() + 1;
  const int64_t first = at::maybe_wrap_dim(a, rank), second = at::maybe_wrap_dim(b, rank);
  if (first == second) return std::nullopt;
  const SymInt length = self.sym_size(-1) + std::abs(offset);
  Sizes sizes(self.sym_sizes().begin(), self.sym_sizes().end() - 1);
  sizes.insert(sizes.begin() + std::min(first, second), length);
  sizes.insert(sizes.begin() + std::max(first, second), length);
  return at::diagonal_scatter(at::zeros_symint(sizes, self.options()), self, offset, first, second);
}

Maybe select_scatter(const Tensor& self, const Tensor& source, int64_t dim, const SymInt& index) {
  if (self.dim() == 0) return std::nullopt;
  const int64_t place = at::maybe_wrap_dim(dim, self.dim());
  const auto given = index.maybe_as_int(), size = self.sym_size(place).maybe_as_int();
  if (!given || (size && (*given >= *size || *given < -*size)) || (!size && *given < 0)) return std::nullopt;
  std::vector<int64_t> shape(self.dim(), 1);
  shape[place] = -1;
  const Tensor row = at::eq(counted(self, self.sym_size(place)), *given < 0 ? *given + *size : *given).view(shape);
  return at::where(row, source.unsqueeze(place).to(self.scalar_type()), self);
}

}  // namespace

c10::ArrayRef<DecompositionRow> views_rows() {
  static constexpr DecompositionRow rows[] = {
      row<transpose>("transpose.int"),
      row<t>("t"),
      row<squeeze>("squeeze"),
      row<squeeze_dim>("squeeze.dim"),
      row<detach>("detach"),
      row<plain_view>("_unsafe_view"),
      row<view_with_strides>("_reshape_alias"),
      row<unbind>("unbind.int"),
      row<split>("split.Tensor"),
      row<split>("unsafe_split.Tensor"),
      row<split_with_sizes>("unsafe_split_with_sizes"),
      row<split_with_sizes_copy>("split_with_sizes_copy"),
      row<roll>("roll"),
      row<rot90>("rot90"),
      row<pixel_shuffle>("pixel_shuffle"),
      row<pixel_unshuffle>("pixel_unshuffle"),
      row<channel_shuffle>("channel_shuffle"),
      row<tril>("tril"),
      row<triu>("triu"),
      row<diag_embed>("diag_embed"),
      row<select_scatter>("select_scatter"),
  };
  return rows;
}

}  // namespace stator::passes
