#include <ATen/TensorOperators.h>
#include <ATen/ops/all.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/lgamma.h>
#include <ATen/ops/log.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <numbers>
#include <tuple>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Scalar;
using at::Tensor;
using decompositions::dims_between;
using decompositions::dims_of;
using decompositions::in_wide;
using decompositions::wide;
using Dims = std::vector<int64_t>;
using Maybe = std::optional<Tensor>;
using Sizes = std::vector<c10::SymInt>;
using Dtype = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;
using Flag = std::optional<bool>;
using Format = std::optional<at::MemoryFormat>;

bool is_strided(const Tensor& self, const Layout& layout) {
  return self.layout() == at::kStrided && layout.value_or(at::kStrided) == at::kStrided;
}

at::TensorOptions options_of(const Dtype& dtype, const Layout& layout, const Device& device, const Flag& pinned) {
  return at::TensorOptions().dtype(dtype).layout(layout).device(device).pinned_memory(pinned);
}

at::TensorOptions options_like(const Tensor& self, const Dtype& dtype, const Layout& layout, const Device& device,
                               const Flag& pinned) {
  return self.options().merge_in(options_of(dtype, layout, device, pinned));
}

/// The default dtype where the program names none: the dtype of the number does not count.
at::TensorOptions with_dtype(at::TensorOptions options) {
  return options.dtype(options.has_dtype() ? options.dtype() : at::get_default_dtype());
}

template <int value>
Maybe filled(const Sizes& sizes, Dtype dtype, Layout layout, Device device, Flag pinned) {
  if (layout.value_or(at::kStrided) != at::kStrided) return std::nullopt;
  return at::full_symint(sizes, value, with_dtype(options_of(dtype, layout, device, pinned)));
}

template <int value>
Maybe filled_like(const Tensor& self, Dtype dtype, Layout layout, Device device, Flag pinned, Format format) {
  if (!is_strided(self, layout)) return std::nullopt;
  return at::full_like(self, value, dtype, layout, device, pinned, format);
}

template <int value>
Maybe new_filled(const Tensor& self, const Sizes& sizes, Dtype dtype, Layout layout, Device device, Flag pinned) {
  if (!is_strided(self, layout)) return std::nullopt;
  return at::full_symint(sizes, value, options_like(self, dtype, layout, device, pinned));
}

Maybe new_full(const Tensor& self, const Sizes& sizes, const Scalar& value, Dtype dtype, Layout layout, Device device,
               Flag pinned) {
  if (!is_strided(self, layout)) return std::nullopt;
  return at::full_symint(sizes, value, options_like(self, dtype, layout, device, pinned));
}

Maybe new_empty(const Tensor& self, const Sizes& sizes, Dtype dtype, Layout layout, Device device, Flag pinned) {
  if (!is_strided(self, layout)) return std::nullopt;
  return at::empty_symint(sizes, options_like(self, dtype, layout, device, pinned), std::nullopt);
}

Tensor arange_start(const Scalar& start, const Scalar& end, Dtype dtype, Layout layout, Device device, Flag pinned) {
  return at::arange(start, end, 1, dtype, layout, device, pinned);
}

Tensor arange(const Scalar& end, Dtype dtype, Layout layout, Device device, Flag pinned) {
  return arange_start(0, end, dtype, layout, device, pinned);
}

/// As the kernels compute it: the first half adds steps to `start`, the second half subtracts steps from `end`.
Maybe linspace(const Scalar& start, const Scalar& end, int64_t steps, Dtype dtype, Layout layout, Device device,
               Flag pinned) {
  constexpr int64_t kExact = int64_t{1} << 24;  // float32 has these integers
  const at::TensorOptions options = with_dtype(options_of(dtype, layout, device, pinned));
  const auto type = c10::typeMetaToScalarType(options.dtype());
  if ((type != at::kFloat && type != at::kDouble) || start.isComplex() || end.isComplex()) return std::nullopt;
  if (start.isSymbolic() || end.isSymbolic() || steps < 2 || steps > kExact) return std::nullopt;
  if (layout.value_or(at::kStrided) != at::kStrided) return std::nullopt;
  const double first = start.toDouble(), last = end.toDouble();
  const double step = (last - first) / static_cast<double>(steps - 1);
  const Tensor index = at::arange(0, steps, 1, options);
  const Tensor high = decompositions::minus(last, decompositions::minus(steps - 1, index) * step);
  return at::where(at::lt(index, steps / 2), index * step + first, high);
}

Tensor eye_m(const c10::SymInt& rows, const c10::SymInt& columns, Dtype dtype, Layout layout, Device device,
             Flag pinned) {
  const auto counted = at::TensorOptions().dtype(at::kLong).device(device);
  const Tensor row = at::arange(Scalar(rows), counted), column = at::arange(Scalar(columns), counted);
  return at::eq(row.unsqueeze(1), column).to(with_dtype(options_of(dtype, layout, device, pinned)));
}

Tensor eye(const c10::SymInt& rows, Dtype dtype, Layout layout, Device device, Flag pinned) {
  return eye_m(rows, rows, dtype, layout, device, pinned);
}

// ---- reductions

Tensor sum(const Tensor& self, Dtype dtype) { return at::sum(self, Dims{}, false, dtype); }

Tensor nansum(const Tensor& self, const std::optional<Dims>& dims, bool keepdim, Dtype dtype) {
  const bool may_have_nan = at::isFloatingType(self.scalar_type());
  const Tensor known = may_have_nan ? at::where(at::isnan(self), Scalar(0.0), self) : self;
  return at::sum(known, dims_of(dims), keepdim, dtype);
}

std::optional<std::tuple<Tensor, Tensor>> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  if (!dim && keepdim) return std::nullopt;
  const Dims dims = dim ? Dims{*dim} : Dims{};
  return std::tuple(at::amin(self, dims, keepdim), at::amax(self, dims, keepdim));
}

/// Whether `all` and `any` return bool. For a uint8 tensor they return uint8.
bool gives_truth(const Tensor& self) { return self.scalar_type() != at::kByte; }

Maybe all(const Tensor& self) {
  if (!gives_truth(self)) return std::nullopt;
  return self.logical_not().any().logical_not();
}

Maybe all_dim(const Tensor& self, int64_t dim, bool keepdim) {
  if (!gives_truth(self)) return std::nullopt;
  return self.logical_not().any(dim, keepdim).logical_not();
}

Maybe all_dims(const Tensor& self, const std::optional<Dims>& dims, bool keepdim) {
  if (!gives_truth(self)) return std::nullopt;
  const Tensor found = self.logical_not();
  return at::any(found, dims_of(dims), keepdim).logical_not();
}

Tensor count_nonzero_dims(const Tensor& self, const Dims& dims) { return at::ne(self, 0).sum(dims); }

Tensor count_nonzero(const Tensor& self, std::optional<int64_t> dim) {
  return count_nonzero_dims(self, dim ? Dims{*dim} : Dims{});
}

Maybe logsumexp(const Tensor& self, const Dims& dims, bool keepdim) {
  if (!at::isFloatingType(self.scalar_type()) || self.sym_numel().maybe_as_int() == 0) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) {
    const Tensor most = at::amax(x, dims, /*keepdim=*/true);
    const Tensor finite = at::where(at::isinf(most), Scalar(0.0), most);
    const Tensor rest = at::log(at::exp(x - finite).sum(dims, keepdim));
    if (keepdim) return rest + finite;
    return rest + (dims.empty() ? finite.squeeze(dims_between(0, x.dim())) : finite.squeeze(dims));
  });
}

/// Whether both have the dtype and, as far as it is known, the size along their last dimension.
bool are_alike(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sym_size(-1).maybe_as_int() == b.sym_size(-1).maybe_as_int();
}

Maybe mv(const Tensor& self, const Tensor& vector) {
  if (self.dim() != 2 || vector.dim() != 1 || !are_alike(self, vector)) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) { return at::sum(x * wide(vector), Dims{1}, false, x.scalar_type()); });
}

Maybe vdot(const Tensor& self, const Tensor& other) {
  if (self.dim() != 1 || other.dim() != 1 || !are_alike(self, other)) return std::nullopt;
  return in_wide(self.is_complex() ? self.conj_physical() : self,
                 [&](const Tensor& x) { return at::sum(x * wide(other), Dims{}, false, x.scalar_type()); });
}

Maybe mvlgamma(const Tensor& self, int64_t p) {
  if (!at::isFloatingType(self.scalar_type())) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) {
    const Tensor steps = at::arange(-0.5 * static_cast<double>(p) + 0.5, 0.5, 0.5, x.options());
    const double constant = 0.25 * std::log(std::numbers::pi) * static_cast<double>(p * (p - 1));
    return at::lgamma(x.unsqueeze(-1) + steps).sum(-1) + constant;
  });
}

}  // namespace

c10::ArrayRef<DecompositionRow> factories_rows() {
  static constexpr DecompositionRow rows[] = {
      row<filled<0>>("zeros"),
      row<filled<1>>("ones"),
      row<filled_like<0>>("zeros_like"),
      row<filled_like<1>>("ones_like"),
      row<new_filled<0>>("new_zeros"),
      row<new_filled<1>>("new_ones"),
      row<new_full>("new_full"),
      row<new_empty>("new_empty"),
      row<arange>("arange"),
      row<arange_start>("arange.start"),
      row<linspace>("linspace"),
      row<eye>("eye"),
      row<eye_m>("eye.m"),
      row<sum>("sum"),
      row<nansum>("nansum"),
      row<aminmax>("aminmax"),
      row<all>("all"),
      row<all_dim>("all.dim"),
      row<all_dims>("all.dims"),
      row<count_nonzero>("count_nonzero"),
      row<count_nonzero_dims>("count_nonzero.dim_IntList"),
      row<logsumexp>("logsumexp"),
      row<mv>("mv"),
      row<vdot>("vdot"),
      row<mvlgamma>("mvlgamma"),
  };
  return rows;
}

}  // namespace stator::passes
