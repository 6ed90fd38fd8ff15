#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/trunc.h>
#include <ATen/ops/where.h>

#include <limits>
#include <numbers>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Scalar;
using at::Tensor;
using decompositions::in_wide;
using decompositions::kInfinity;
using decompositions::minus;

Tensor frac(const Tensor& self) { return self - at::trunc(self); }

Tensor deg2rad(const Tensor& self) { return self * (std::numbers::pi / 180.0); }

Tensor rad2deg(const Tensor& self) { return self * (180.0 / std::numbers::pi); }

Tensor heaviside(const Tensor& self, const Tensor& values) {
  return at::where(at::eq(self, 0), values, (self > 0).to(self.scalar_type()));
}

Tensor xlogy(const Tensor& self, const Tensor& other) {
  const Tensor made = at::where(at::eq(self, 0), Scalar(0), self * at::log(other));
  return at::where(at::isnan(other), Scalar(std::numeric_limits<double>::quiet_NaN()), made);
}

Tensor xlog1py(const Tensor& self, const Tensor& other) {
  const Tensor made = at::where(at::eq(self, 0), Scalar(0), self * at::log1p(other));
  return at::where(at::isnan(other), Scalar(std::numeric_limits<double>::quiet_NaN()), made);
}

Tensor isposinf(const Tensor& self) { return at::eq(self, kInfinity); }

Tensor isneginf(const Tensor& self) { return at::eq(self, -kInfinity); }

Tensor logit_backward(const Tensor& grad, const Tensor& self, std::optional<double> eps) {
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor x = self.to(g.scalar_type()), made = g / (x * minus(1.0, x));
    if (!eps)
      return at::where((x >= 0.0).logical_and(x <= 1.0), made, Scalar(std::numeric_limits<double>::quiet_NaN()));
    return at::where((x >= *eps).logical_and(x <= 1.0 - *eps), made, Scalar(0.0));
  });
}

Tensor fill(const Tensor& self, const Scalar& value) { return at::full_like(self, value); }

Tensor masked_fill(const Tensor& self, const Tensor& mask, const Scalar& value) { return at::where(mask, value, self); }

Tensor zero(const Tensor& self) { return at::full_like(self, 0); }

}  // namespace

c10::ArrayRef<DecompositionRow> arithmetic_rows() {
  static constexpr DecompositionRow rows[] = {
      row<frac>("frac"),
      row<deg2rad>("deg2rad"),
      row<rad2deg>("rad2deg"),
      row<heaviside>("heaviside"),
      row<xlogy>("xlogy.Tensor"),
      row<xlog1py>("special_xlog1py"),
      row<isposinf>("isposinf"),
      row<isneginf>("isneginf"),
      row<logit_backward>("logit_backward"),
      row<fill>("fill.Scalar"),
      row<masked_fill>("masked_fill.Scalar"),
      row<zero>("zero"),
  };
  return rows;
}

}  // namespace stator::passes
