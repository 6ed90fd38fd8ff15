#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Scalar;
using at::Tensor;
using c10::SymInt;
using decompositions::wide;
using Maybe = std::optional<Tensor>;
using Sizes = std::vector<SymInt>;
using Indices = c10::List<std::optional<Tensor>>;

Tensor unsafe_index(const Tensor& self, const Indices& indices) { return at::index(self, indices); }

Tensor unsafe_index_put(const Tensor& self, const Indices& indices, const Tensor& values, bool accumulate) {
  return at::index_put(self, indices, values, accumulate);
}

/// Indices within the sizes of the tensor.
Indices clamped(const Tensor& self, const Indices& indices) {
  Indices made;
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    const std::optional<Tensor> index = indices.get(dim);
    const SymInt last = self.sym_size(static_cast<int64_t>(dim)) - 1;
    made.push_back(index ? std::optional(at::clamp(*index, 0, Scalar(last))) : std::nullopt);
  }
  return made;
}

Maybe unsafe_masked_index(const Tensor& self, const Tensor& mask, const Indices& indices, const Scalar& fill) {
  if (self.sym_numel().maybe_as_int() == 0) return std::nullopt;
  return at::index(self, clamped(self, indices)).masked_fill(mask.logical_not(), fill);
}

Maybe unsafe_masked_index_put_accumulate(const Tensor& self, const Tensor& mask, const Indices& indices,
                                         const Tensor& values) {
  if (self.sym_numel().maybe_as_int() == 0) return std::nullopt;
  return at::index_put(self, clamped(self, indices), values.masked_fill(mask.logical_not(), 0), true);
}

Maybe take(const Tensor& self, const Tensor& index) {
  if (index.scalar_type() != at::kLong) return std::nullopt;
  return at::index(self.reshape(-1), Indices({std::optional(index)}));
}

/// The index list that selects `index` in dimension `dim`, with no index for the dimensions before it. None if the
/// kernel refuses such an index.
std::optional<Indices> index_along(const Tensor& self, int64_t dim, const Tensor& index) {
  const bool is_index = index.scalar_type() == at::kLong || index.scalar_type() == at::kInt;
  if (self.dim() == 0 || index.dim() > 1 || !is_index) return std::nullopt;
  Indices made;
  for (int64_t before = at::maybe_wrap_dim(dim, self.dim()); before > 0; --before) made.push_back(std::nullopt);
  made.push_back(index.reshape(-1));
  return made;
}

Maybe index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  const auto indices = index_along(self, dim, index);
  if (!indices || source.dim() != self.dim() || self.scalar_type() == at::kBool) return std::nullopt;
  const Tensor added = alpha.equal(1) ? source : source * alpha;
  if (added.scalar_type() != self.scalar_type()) return std::nullopt;
  return at::index_put(self, *indices, added, true).contiguous();
}

Maybe index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const auto indices = index_along(self, dim, index);
  if (!indices || source.dim() != self.dim() || source.scalar_type() != self.scalar_type()) return std::nullopt;
  return at::index_put(self, *indices, source, false).contiguous();
}

Maybe index_fill_tensor(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  const auto indices = index_along(self, dim, index);
  if (!indices || index.scalar_type() != at::kLong || value.dim() != 0) return std::nullopt;
  if (value.is_complex() && !self.is_complex()) return std::nullopt;
  return at::index_put(self, *indices, value.to(self.scalar_type()), false);
}

Maybe index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  const auto indices = index_along(self, dim, index);
  if (!indices || index.scalar_type() != at::kLong) return std::nullopt;
  if (value.isComplex() && !self.is_complex()) return std::nullopt;
  return at::index_put(self, *indices, at::scalar_tensor(value, self.options()), false);
}

Tensor embedding_dense_backward(const Tensor& grad, const Tensor& indices, const SymInt& count, const SymInt& padding,
                                bool by_frequency) {
  const Tensor index = indices.to(at::kLong);
  const Indices rows({std::optional(index)});
  Tensor g = wide(grad);
  if (by_frequency) {
    const Tensor none = at::zeros_symint({count}, index.options());
    const Tensor counts = at::index_put(none, rows, at::ones_like(index), true);
    g = g / at::index(counts, rows).unsqueeze(-1);
  }
  g = at::where(at::ne(index, Scalar(padding)).unsqueeze(-1), g, Scalar(0.0));
  const Tensor none = at::zeros_symint({count, grad.sym_size(-1)}, g.options());
  return at::index_put(none, rows, g, true).to(grad.scalar_type());
}

Tensor counted(const Tensor& like, const SymInt& start, const SymInt& end) {
  return at::arange(Scalar(start), Scalar(end), like.options().dtype(at::kLong));
}

Maybe unfold_backward(const Tensor& grad, const Sizes& sizes, int64_t dim, int64_t size, int64_t step) {
  if (sizes.empty()) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(sizes.size()), place = at::maybe_wrap_dim(dim, rank);
  const Tensor index = counted(grad, 0, sizes[place]).unfold(0, size, step).reshape(-1);
  Indices indices;
  for (int64_t i = 0; i < place; ++i) indices.push_back(std::nullopt);
  indices.push_back(index);
  const Tensor flat = grad.movedim(-1, place + 1).flatten(place, place + 1);
  return at::index_put(at::zeros_symint(sizes, grad.options()), indices, flat, true);
}

// ---- padding: an index for each dimension of the result

Tensor mirrored(const Tensor& like, const SymInt& size, const SymInt& before, const SymInt& after) {
  const Tensor place = at::abs(counted(like, -before, size + after));
  return at::abs(place.neg() + Scalar(size - 1)).neg() + Scalar(size - 1);
}

Tensor repeated(const Tensor& like, const SymInt& size, const SymInt& before, const SymInt& after) {
  return at::clamp(counted(like, -before, size + after), 0, Scalar(size - 1));
}

/// The index of one dimension, so that it broadcasts with those of the `rest` dimensions after it.
Tensor spread(Tensor index, int64_t rest) {
  for (int64_t i = 0; i < rest; ++i) index = index.unsqueeze(-1);
  return index;
}

template <Tensor (*place)(const Tensor&, const SymInt&, const SymInt&, const SymInt&)>
Indices padded(const Tensor& self, const Sizes& padding) {
  const auto count = static_cast<int64_t>(padding.size() / 2), first = self.dim() - count;
  Indices indices;
  for (int64_t dim = 0; dim < first; ++dim) indices.push_back(std::nullopt);
  for (int64_t i = 0; i < count; ++i) {
    const size_t pair = 2 * (count - 1 - i);
    const Tensor index = place(self, self.sym_size(first + i), padding[pair], padding[pair + 1]);
    indices.push_back(spread(index, count - 1 - i));
  }
  return indices;
}

/// Whether the operator itself would take it; if not, it raises.
bool can_pad(const Tensor& self, const Sizes& padding, bool is_reflection) {
  const auto count = static_cast<int64_t>(padding.size() / 2);
  if (self.dim() < count + 1) return false;
  for (int64_t i = 0; i < count; ++i) {
    const auto size = self.sym_size(self.dim() - 1 - i).maybe_as_int();
    for (const SymInt& pad : {padding[2 * i], padding[2 * i + 1]}) {
      const auto width = pad.maybe_as_int();
      if (!size || !width || *width < 0 || *size < 1 || (is_reflection && *width >= *size)) return false;
    }
  }
  return true;
}

Maybe reflection_pad(const Tensor& self, const Sizes& padding) {
  if (!can_pad(self, padding, true)) return std::nullopt;
  return at::index(self, padded<mirrored>(self, padding));
}

Maybe reflection_pad_backward(const Tensor& grad, const Tensor& self, const Sizes& padding) {
  if (!can_pad(self, padding, true) || decompositions::is_low_precision(self)) return std::nullopt;
  return at::index_put(at::zeros_like(self), padded<mirrored>(self, padding), grad, true);
}

Maybe replication_pad(const Tensor& self, const Sizes& padding) {
  if (!can_pad(self, padding, false)) return std::nullopt;
  return at::index(self, padded<repeated>(self, padding));
}

// ---- interpolation

Tensor nearest_index(const Tensor& self, const SymInt& from, const SymInt& to, std::optional<double> scale,
                     double shift) {
  const c10::SymFloat step =
      scale && *scale > 0 ? c10::SymFloat(1.0 / *scale) : c10::SymFloat(from) / c10::SymFloat(to);
  const Tensor place = at::arange(Scalar(to), self.options().dtype(at::kFloat));
  const Tensor source = at::floor((shift == 0 ? place : place + shift) * Scalar(step));
  return at::clamp(source, std::nullopt, Scalar(from - 1)).to(at::kLong);
}

Maybe nearest(const Tensor& self, const Sizes& sizes, const std::vector<std::optional<double>>& scales, double shift) {
  Indices indices({std::nullopt, std::nullopt});
  const auto count = static_cast<int64_t>(sizes.size());
  if (sizes.size() != scales.size() || self.dim() != count + 2) return std::nullopt;  // the operator itself raises
  for (int64_t i = 0; i < count; ++i)
    indices.push_back(spread(nearest_index(self, self.sym_size(2 + i), sizes[i], scales[i], shift), count - 1 - i));
  const Tensor made = at::index(self, indices);
  return self.is_quantized() || made.unsafeGetTensorImpl()->has_symbolic_sizes_strides()
             ? made
             : made.contiguous(self.suggest_memory_format());
}

template <bool is_exact>
Maybe upsample_nearest1d(const Tensor& self, const Sizes& sizes, std::optional<double> scale) {
  return nearest(self, sizes, {scale}, is_exact ? 0.5 : 0);
}

template <bool is_exact>
Maybe upsample_nearest2d(const Tensor& self, const Sizes& sizes, std::optional<double> height,
                         std::optional<double> width) {
  return nearest(self, sizes, {height, width}, is_exact ? 0.5 : 0);
}

template <bool is_exact>
Maybe upsample_nearest3d(const Tensor& self, const Sizes& sizes, std::optional<double> depth,
                         std::optional<double> height, std::optional<double> width) {
  return nearest(self, sizes, {depth, height, width}, is_exact ? 0.5 : 0);
}

// ---- others

Tensor isin_scalar(const Tensor& elements, const Scalar& one, bool, bool invert) {
  return invert ? at::ne(elements, one) : at::eq(elements, one);
}

Maybe linalg_cross(const Tensor& self, const Tensor& other, int64_t dim) {
  auto is_fit = [&](const Tensor& t) { return t.dim() == self.dim() && t.sym_size(dim).maybe_as_int() == 3; };
  if (!is_fit(self) || !is_fit(other)) return std::nullopt;
  const auto both = at::broadcast_tensors({self, other});
  auto rolled = [&](const Tensor& t, int64_t by) { return at::roll(t, by, dim); };
  return rolled(both[0], -1) * rolled(both[1], 1) - rolled(both[0], 1) * rolled(both[1], -1);
}

}  // namespace

c10::ArrayRef<DecompositionRow> indexing_rows() {
  static constexpr DecompositionRow rows[] = {
      row<unsafe_index>("_unsafe_index.Tensor"),
      row<unsafe_index_put>("_unsafe_index_put"),
      row<unsafe_masked_index>("_unsafe_masked_index"),
      row<unsafe_masked_index_put_accumulate>("_unsafe_masked_index_put_accumulate"),
      row<take>("take"),
      row<index_add>("index_add"),
      row<index_copy>("index_copy"),
      row<index_fill>("index_fill.int_Scalar"),
      row<index_fill_tensor>("index_fill.int_Tensor"),
      row<embedding_dense_backward>("embedding_dense_backward"),
      row<unfold_backward>("unfold_backward"),
      row<reflection_pad>("reflection_pad1d"),
      row<reflection_pad>("reflection_pad2d"),
      row<reflection_pad>("reflection_pad3d"),
      row<reflection_pad_backward>("reflection_pad1d_backward"),
      row<reflection_pad_backward>("reflection_pad2d_backward"),
      row<reflection_pad_backward>("reflection_pad3d_backward"),
      row<replication_pad>("replication_pad1d"),
      row<replication_pad>("replication_pad2d"),
      row<replication_pad>("replication_pad3d"),
      row<upsample_nearest1d<false>>("upsample_nearest1d"),
      row<upsample_nearest2d<false>>("upsample_nearest2d"),
      row<upsample_nearest3d<false>>("upsample_nearest3d"),
      row<upsample_nearest1d<true>>("_upsample_nearest_exact1d"),
      row<upsample_nearest2d<true>>("_upsample_nearest_exact2d"),
      row<upsample_nearest3d<true>>("_upsample_nearest_exact3d"),
      row<isin_scalar>("isin.Tensor_Scalar"),
      row<linalg_cross>("linalg_cross"),
  };
  return rows;
}

}  // namespace stator::passes
