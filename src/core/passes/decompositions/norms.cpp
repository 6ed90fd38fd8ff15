#include <ATen/TensorOperators.h>
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/where.h>

#include <array>
#include <limits>
#include <tuple>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Scalar;
using at::Tensor;
using c10::SymInt;
using decompositions::dims_between;
using decompositions::dims_of;
using decompositions::in_wide;
using decompositions::kInfinity;
using decompositions::wide;
using OptionalTensor = std::optional<Tensor>;
using Dims = std::vector<int64_t>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor softmax_backward_data(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType input_dtype) {
  const Tensor y = wide(output), weighted = wide(grad) * y;
  return (weighted - y * weighted.sum(dim, true)).to(input_dtype);
}

Tensor log_softmax_backward_data(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType input_dtype) {
  const Tensor g = wide(grad);
  return (g - at::exp(wide(output)) * g.sum(dim, true)).to(input_dtype);
}

Tensor safe_softmax(const Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype) {
  const Tensor is_masked = at::all(at::eq(self, -kInfinity), dim, /*keepdim=*/true);
  return at::where(is_masked, Scalar(0.0), at::softmax(self, dim, dtype));
}

/// The sum over `dims`, or the tensor itself if there are none.
Tensor sum_over(const Tensor& tensor, const Dims& dims) { return dims.empty() ? tensor : tensor.sum(dims); }

Three native_layer_norm_backward(const Tensor& grad, const Tensor& input, const std::vector<SymInt>& shape,
                                 const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight,
                                 const OptionalTensor& bias, const std::array<bool, 3>& wanted) {
  const auto first = input.dim() - static_cast<int64_t>(shape.size());
  const Dims inner = dims_between(first, input.dim()), outer = dims_between(0, first);
  const Tensor g = wide(grad), scale = wide(rstd), normal = (wide(input) - wide(mean)) * scale;
  const bool has_weight = weight && weight->defined(), has_bias = bias && bias->defined();
  Three made;
  if (wanted[0]) {
    SymInt count = 1;
    for (const SymInt& size : shape) count = count * size;
    const Tensor weighted = has_weight ? g * wide(*weight) : g;
    const Tensor both =
        weighted * Scalar(count) - weighted.sum(inner, true) - normal * (weighted * normal).sum(inner, true);
    std::get<0>(made) = (scale / Scalar(count) * both).to(input.scalar_type());
  }
  if (wanted[1] && has_weight) std::get<1>(made) = sum_over(g * normal, outer).to(weight->scalar_type());
  if (wanted[2] && has_bias) std::get<2>(made) = (outer.empty() ? g.clone() : g.sum(outer)).to(bias->scalar_type());
  return made;
}

Three native_group_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& rstd,
                                 const OptionalTensor& weight, const SymInt& n, const SymInt& channels,
                                 const SymInt& area, int64_t groups, const std::array<bool, 3>& wanted) {
  const SymInt group = groups, size = channels / group;
  const bool has_weight = weight && weight->defined();
  const Tensor x = wide(input), g = wide(grad), m = wide(mean), r = wide(rstd);
  const Tensor by_input = (g * x).reshape_symint({n, channels, area}).sum(2);
  const Tensor by_one = g.reshape_symint({n, channels, area}).sum(2);
  auto grouped = [&](const Tensor& t) { return t.reshape_symint({n, group, size}); };
  Three made;
  if (wanted[0]) {
    const Tensor gamma = has_weight ? wide(*weight).unsqueeze(0) : Tensor();
    auto summed = [&](const Tensor& t) { return grouped(has_weight ? t * gamma : t).sum(2); };
    const Tensor ds = summed(by_input), db = summed(by_one);
    const Scalar share(c10::SymFloat(1.0) / c10::SymFloat(area * size));
    Tensor slope = r.unsqueeze(-1);
    if (has_weight) slope = slope * gamma.reshape_symint({1, group, size});
    const Tensor second = (db * m - ds) * r * r * r * share, third = -second * m - db * r * share;
    auto four = [&](const Tensor& t) { return t.reshape_symint({n, group, size, area}); };
    const Tensor change = four(g) * slope.unsqueeze(-1) + four(x) * second.unsqueeze(-1).unsqueeze(-1) +
                          third.unsqueeze(-1).unsqueeze(-1);
    std::get<0>(made) = change.reshape_symint(input.sym_sizes()).to(input.scalar_type());
  }
  const at::ScalarType dtype = has_weight ? weight->scalar_type() : input.scalar_type();
  if (wanted[1]) {
    const Tensor centred = (grouped(by_input) - grouped(by_one) * m.unsqueeze(-1)) * r.unsqueeze(-1);
    std::get<1>(made) = centred.sum(0).reshape_symint({channels}).to(dtype);
  }
  if (wanted[2]) std::get<2>(made) = by_one.sum(0).to(dtype);
  return made;
}

std::optional<Three> native_batch_norm_backward(const Tensor& grad, const Tensor& input, const OptionalTensor& weight,
                                                const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                                const OptionalTensor& save_mean, const OptionalTensor& save_invstd,
                                                bool train, double eps, const std::array<bool, 3>& wanted) {
  if (input.sym_size(1).maybe_as_int() == 0) return std::nullopt;
  Dims dims = dims_between(2, input.dim());
  dims.insert(dims.begin(), 0);
  Dims shape(input.dim(), 1);
  shape[1] = -1;
  const Tensor mean = wide(train ? *save_mean : *running_mean);
  const Tensor invstd = train ? wide(*save_invstd) : at::rsqrt(wide(*running_var) + eps);
  const Tensor x = wide(input), g = wide(grad), centred = x - mean.view(shape);
  const Tensor sum = g.sum(dims), product = (g * centred).sum(dims);
  const bool has_weight = weight && weight->defined();
  const Tensor scale = (has_weight ? invstd * wide(*weight) : invstd).view(shape);
  Three made;
  if (wanted[0]) {
    Tensor rest = g;
    if (train) {
      const Scalar share(c10::SymFloat(1.0) / c10::SymFloat(input.sym_numel() / input.sym_size(1)));
      rest = g - centred * (product * share * invstd * invstd).view(shape) - (sum * share).view(shape);
    }
    std::get<0>(made) = (rest * scale).to(input.scalar_type());
  }
  const at::ScalarType dtype = has_weight ? weight->scalar_type() : input.scalar_type();
  if (wanted[1]) std::get<1>(made) = (product * invstd).to(dtype);
  if (wanted[2]) std::get<2>(made) = sum.to(dtype);
  return made;
}

std::optional<std::tuple<Tensor, Tensor>> weight_norm_interface(const Tensor& v, const Tensor& g, int64_t dim) {
  if (decompositions::is_low_precision(v)) return std::nullopt;
  Dims dims = dims_between(0, v.dim());
  dims.erase(dims.begin() + (dim < 0 ? dim + v.dim() : dim));
  const Tensor norm = at::linalg_vector_norm(v, 2, dims, /*keepdim=*/true, std::nullopt);
  return std::tuple(v * (g / norm), norm);
}

Tensor std_correction(const Tensor& self, const std::optional<Dims>& dims, const std::optional<Scalar>& correction,
                      bool keepdim) {
  return in_wide(self, [&](const Tensor& x) { return at::sqrt(at::var(x, dims_of(dims), correction, keepdim)); });
}

std::tuple<Tensor, Tensor> std_mean_correction(const Tensor& self, const std::optional<Dims>& dims,
                                               const std::optional<Scalar>& correction, bool keepdim) {
  auto [variance, mean] = at::var_mean(wide(self), dims_of(dims), correction, keepdim);
  return std::tuple(at::sqrt(variance).to(c10::toRealValueType(self.scalar_type())), mean.to(self.scalar_type()));
}

Tensor norm(const Tensor& self, const Scalar& p) {
  return at::linalg_vector_norm(self, p, std::nullopt, false, std::nullopt);
}

Scalar order(const std::optional<Scalar>& p) { return p.value_or(Scalar(2)); }

/// An empty list of dimensions means all.
at::OptionalIntArrayRef some(const Dims& dims) {
  return dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
}

Tensor norm_dim(const Tensor& self, const std::optional<Scalar>& p, const Dims& dims, bool keepdim) {
  return at::linalg_vector_norm(self, order(p), some(dims), keepdim, std::nullopt);
}

Tensor norm_dim_dtype(const Tensor& self, const std::optional<Scalar>& p, const Dims& dims, bool keepdim,
                      at::ScalarType dtype) {
  return at::linalg_vector_norm(self, order(p), some(dims), keepdim, dtype);
}

Tensor norm_dtype(const Tensor& self, const std::optional<Scalar>& p, at::ScalarType dtype) {
  return at::linalg_vector_norm(self, order(p), std::nullopt, false, dtype);
}

}  // namespace

c10::ArrayRef<DecompositionRow> norms_rows() {
  static constexpr DecompositionRow rows[] = {
      row<softmax_backward_data>("_softmax_backward_data"),
      row<log_softmax_backward_data>("_log_softmax_backward_data"),
      row<safe_softmax>("_safe_softmax"),
      row<native_layer_norm_backward>("native_layer_norm_backward"),
      row<native_group_norm_backward>("native_group_norm_backward"),
      row<native_batch_norm_backward>("native_batch_norm_backward"),
      row<weight_norm_interface>("_weight_norm_interface"),
      row<std_correction>("std.correction"),
      row<std_mean_correction>("std_mean.correction"),
      row<norm>("norm.Scalar"),
      row<norm_dim>("norm.ScalarOpt_dim"),
      row<norm_dim_dtype>("norm.ScalarOpt_dim_dtype"),
      row<norm_dtype>("norm.ScalarOpt_dtype"),
  };
  return rows;
}

}  // namespace stator::passes
