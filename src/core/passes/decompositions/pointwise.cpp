#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>

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
using decompositions::wide;
using Maybe = std::optional<Tensor>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_float(const Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); }

/// Whether rounding between the steps is not seen.
bool is_exact(const Tensor& tensor) { return is_float(tensor) && !decompositions::is_low_precision(tensor); }

// ---- activations

Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  const auto halves = self.chunk(2, dim);
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor s = at::sigmoid(wide(halves[1])), first = s * g;
    return at::cat({first, minus(1, s) * first * wide(halves[0])}, dim);
  });
}

Tensor hardswish_backward(const Tensor& grad, const Tensor& self) {
  return in_wide(grad, [&](const Tensor& g) {
    return at::where(self <= -3, Scalar(0.0), at::where(self < 3, g * (wide(self) / 3 + 0.5), g));
  });
}

std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self) {
  const Tensor x = wide(self), z = at::exp(-at::abs(x));
  const Tensor made = at::clamp(x, std::nullopt, 0) - at::log1p(z);
  return std::tuple(made.to(self.scalar_type()), z.to(self.scalar_type()));
}

Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor& buffer) {
  return in_wide(grad, [&](const Tensor& g) {
    // The kernels of other devices leave the buffer empty.
    const Tensor z = self.device().is_cpu() ? wide(buffer) : at::exp(-at::abs(wide(self)));
    const Tensor part = z / (z + 1);
    return g * at::where(self < 0, minus(1, part), part);
  });
}

Tensor prelu_kernel(const Tensor& self, const Tensor& weight) { return at::where(self > 0, self, weight * self); }

std::tuple<Tensor, Tensor> prelu_kernel_backward(const Tensor& grad, const Tensor& self, const Tensor& weight) {
  return std::tuple(at::where(self > 0, grad, weight * grad), at::where(self > 0, Scalar(0.0), self * grad));
}

// ---- arithmetic

/// Whether all have one dtype. If not, they promote to another than the first one's, or the operator raises.
bool are_alike(const Tensor& self, const Tensor& a, const Tensor& b) {
  return self.scalar_type() == a.scalar_type() && self.scalar_type() == b.scalar_type();
}

Maybe addcdiv(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  if (!is_float(self) || !are_alike(self, a, b)) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) { return x + wide(a) * value / wide(b); });
}

Maybe addcmul(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  if (!are_alike(self, a, b)) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) { return x + wide(a) * value * wide(b); });
}

Maybe lerp_scalar(const Tensor& self, const Tensor& end, const Scalar& weight) {
  if (!is_float(self) || !are_alike(self, end, end) || weight.isComplex() || weight.isSymbolic()) return std::nullopt;
  const double w = weight.toDouble();
  return in_wide(self, [&](const Tensor& x) {
    const Tensor y = wide(end), way = y - x;
    return std::abs(w) < 0.5 ? x + way * w : y - way * (1 - w);
  });
}

Maybe lerp_tensor(const Tensor& self, const Tensor& end, const Tensor& weight) {
  if (!is_float(self) || !are_alike(self, end, weight)) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) {
    const Tensor y = wide(end), w = wide(weight), way = y - x;
    return at::where(at::abs(w) < 0.5, x + w * way, y - way * minus(1, w));
  });
}

/// `sum * beta + product * alpha`; a `beta` of 0 ignores the sum, NaNs too.
Tensor weighted(const Tensor& sum, const Scalar& beta, const Tensor& product, const Scalar& alpha) {
  Tensor scaled = alpha.equal(1) ? product : product * alpha;
  if (beta.equal(0)) return scaled;
  return (beta.equal(1) ? sum : sum * beta) + scaled;
}

Maybe addr(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  if (!is_exact(self) || beta.equal(0)) return std::nullopt;
  return weighted(self, beta, a.unsqueeze(1) * b.unsqueeze(0), alpha);
}

Maybe baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  if (!is_exact(self) || beta.equal(0)) return std::nullopt;
  return weighted(self, beta, at::bmm(a, b), alpha);
}

Maybe rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) { return at::sub(other, self, alpha); }

Maybe rsub_scalar(const Tensor& self, const Scalar& other, const Scalar& alpha) {
  if (!alpha.equal(1)) return std::nullopt;
  return minus(other, self);
}

Tensor floor_divide(const Tensor& self, const Tensor& other) { return at::div(self, other, "floor"); }

Tensor floor_divide_scalar(const Tensor& self, const Scalar& other) { return at::div(self, other, "floor"); }

Tensor clamp_min(const Tensor& self, const Scalar& least) { return at::clamp(self, least, std::nullopt); }

Tensor clamp_max(const Tensor& self, const Scalar& most) { return at::clamp(self, std::nullopt, most); }

Tensor clamp_min_tensor(const Tensor& self, const Tensor& least) { return at::maximum(self, least); }

Tensor clamp_max_tensor(const Tensor& self, const Tensor& most) { return at::minimum(self, most); }

Maybe fill_tensor(const Tensor& self, const Tensor& value) {
  if (value.dim() != 0) return std::nullopt;
  return at::copy(self, value);
}

Maybe masked_fill_tensor(const Tensor& self, const Tensor& mask, const Tensor& value) {
  if (value.dim() != 0) return std::nullopt;
  return at::where(mask, value.to(self.options()), self);
}

Maybe nan_to_num(const Tensor& self, std::optional<double> nan, std::optional<double> most,
                 std::optional<double> least) {
  if (!is_float(self)) return self.is_complex() ? Maybe() : Maybe(self.clone());
  const double limit = AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "nan_to_num", [] {
    return static_cast<double>(std::numeric_limits<scalar_t>::max());
  });
  const Tensor known = at::where(at::isnan(self), Scalar(nan.value_or(0)), self);
  const Tensor lower = at::where(at::eq(self, -kInfinity), Scalar(least.value_or(-limit)), known);
  return at::where(at::eq(self, kInfinity), Scalar(most.value_or(limit)), lower);
}

// ---- special functions

Maybe logit(const Tensor& self, std::optional<double> eps) {
  if (!is_exact(self)) return std::nullopt;
  const Tensor x = eps && *eps >= 0 ? at::clamp(self, *eps, 1.0 - *eps) : self;
  return at::log(x / minus(1.0, x));
}

Maybe sinc(const Tensor& self) {
  if (!is_float(self)) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) {
    const Tensor angle = x * std::numbers::pi;
    return at::where(at::eq(x, 0), Scalar(1.0), at::sin(angle) / angle);
  });
}

Tensor sgn(const Tensor& self) {
  if (!self.is_complex()) return at::sign(self);
  const Tensor size = at::abs(self);
  return at::where(at::eq(size, 0), Scalar(0.0), self / size);
}

Maybe entr(const Tensor& self) {
  if (!is_float(self)) return std::nullopt;
  return in_wide(self, [&](const Tensor& x) {
    const Tensor rest = at::where(at::eq(x, 0), at::zeros_like(x), at::zeros_like(x) - kInfinity);
    return at::where(at::isnan(x), x, at::where(x > 0, -x * at::log(x), rest));
  });
}

/// log(base^a + base^b)
template <class Power>
Maybe log_of_sum(const Tensor& a, const Tensor& b, const Power& power, double unit) {
  if (!is_float(a) || a.scalar_type() != b.scalar_type()) return std::nullopt;
  return in_wide(a, [&](const Tensor& x) {
    const Tensor y = wide(b), most = at::maximum(x, y);
    Tensor rest = at::log1p(power(-at::abs(x - y)));
    if (unit != 1) rest = rest * unit;
    return at::where(at::isinf(x).logical_and(at::eq(x, y)), x, most + rest);
  });
}

Maybe logaddexp(const Tensor& a, const Tensor& b) {
  return log_of_sum(
      a, b, [](const Tensor& x) { return at::exp(x); }, 1);
}

Maybe logaddexp2(const Tensor& a, const Tensor& b) {
  return log_of_sum(
      a, b, [](const Tensor& x) { return at::exp2(x); }, std::numbers::log2e);
}

/// `self * log(other)`, or of `1 + other`, with 0 for a `self` of 0.
Maybe times_log(const Tensor& self, const Scalar& other, double shift) {
  if (other.isComplex() || other.isSymbolic() || !is_float(self)) return std::nullopt;
  const double number = other.toDouble(), logarithm = shift == 0 ? std::log(number) : std::log1p(number);
  if (std::isnan(number)) return at::zeros_like(self) + kNaN;
  return at::where(at::eq(self, 0), Scalar(0.0), self * logarithm);
}
Maybe log_times(const Scalar& self, const Tensor& other, double shift) {
  if (self.isComplex() || self.isSymbolic() || !is_float(other)) return std::nullopt;
  const Tensor logarithm = shift == 0 ? at::log(other) : at::log1p(other);
  if (self.toDouble() == 0) return at::where(at::isnan(other), other, at::zeros_like(other));
  return logarithm * self;
}
Maybe xlogy_scalar_other(const Tensor& self, const Scalar& other) { return times_log(self, other, 0); }
Maybe xlogy_scalar_self(const Scalar& self, const Tensor& other) { return log_times(self, other, 0); }
Maybe xlog1py_scalar_other(const Tensor& self, const Scalar& other) { return times_log(self, other, 1); }
Maybe xlog1py_scalar_self(const Scalar& self, const Tensor& other) { return log_times(self, other, 1); }

}  // namespace

c10::ArrayRef<DecompositionRow> pointwise_rows() {
  static constexpr DecompositionRow rows[] = {
      row<glu_backward>("glu_backward"),
      row<hardswish_backward>("hardswish_backward"),
      row<log_sigmoid_forward>("log_sigmoid_forward"),
      row<log_sigmoid_backward>("log_sigmoid_backward"),
      row<prelu_kernel>("_prelu_kernel"),
      row<prelu_kernel_backward>("_prelu_kernel_backward"),
      row<addcdiv>("addcdiv"),
      row<addcmul>("addcmul"),
      row<lerp_scalar>("lerp.Scalar"),
      row<lerp_tensor>("lerp.Tensor"),
      row<addr>("addr"),
      row<baddbmm>("baddbmm"),
      row<rsub>("rsub.Tensor"),
      row<rsub_scalar>("rsub.Scalar"),
      row<floor_divide>("floor_divide"),
      row<floor_divide_scalar>("floor_divide.Scalar"),
      row<clamp_min>("clamp_min"),
      row<clamp_max>("clamp_max"),
      row<clamp_min_tensor>("clamp_min.Tensor"),
      row<clamp_max_tensor>("clamp_max.Tensor"),
      row<fill_tensor>("fill.Tensor"),
      row<masked_fill_tensor>("masked_fill.Tensor"),
      row<nan_to_num>("nan_to_num"),
      row<logit>("logit"),
      row<sinc>("sinc"),
      row<sgn>("sgn"),
      row<entr>("special_entr"),
      row<logaddexp>("logaddexp"),
      row<logaddexp2>("logaddexp2"),
      row<xlogy_scalar_other>("xlogy.Scalar_Other"),
      row<xlogy_scalar_self>("xlogy.Scalar_Self"),
      row<xlog1py_scalar_other>("special_xlog1py.other_scalar"),
      row<xlog1py_scalar_self>("special_xlog1py.self_scalar"),
  };
  return rows;
}

}  // namespace stator::passes
