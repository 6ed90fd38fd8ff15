#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>

#include <numbers>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Scalar;
using at::Tensor;
using decompositions::in_wide;
using decompositions::minus;

Tensor hardsigmoid(const Tensor& self) {
  return in_wide(self, [](const Tensor& x) { return at::clamp(x + 3, 0, 6) / 6; });
}

Tensor hardsigmoid_backward(const Tensor& grad, const Tensor& self) {
  return in_wide(grad, [&](const Tensor& g) {
    return at::where((self > -3.0).logical_and(self < 3.0), g * (1.0 / 6.0), Scalar(0.0));
  });
}

Tensor hardswish(const Tensor& self) {
  return in_wide(self, [](const Tensor& x) { return x * at::clamp(x + 3, 0, 6) / 6; });
}

Tensor hardtanh_backward(const Tensor& grad, const Tensor& self, const Scalar& low, const Scalar& high) {
  return in_wide(grad,
                 [&](const Tensor& g) { return at::where((self <= low).logical_or(self >= high), Scalar(0.0), g); });
}

Tensor threshold_backward(const Tensor& grad, const Tensor& self, const Scalar& threshold) {
  return at::where(self <= threshold, Scalar(0), grad);
}

Tensor leaky_relu_backward(const Tensor& grad, const Tensor& self, const Scalar& slope, bool) {
  return in_wide(grad, [&](const Tensor& g) { return at::where(self > 0, g, g * slope); });
}

Tensor silu(const Tensor& self) {
  return in_wide(self, [](const Tensor& x) { return x * at::sigmoid(x); });
}

Tensor silu_backward(const Tensor& grad, const Tensor& self) {
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor x = self.to(g.scalar_type());
    const Tensor s = at::sigmoid(x);
    return g * s * (x * minus(1, s) + 1);
  });
}

Tensor mish(const Tensor& self) {
  return in_wide(self, [](const Tensor& x) { return x * at::tanh(at::log1p(at::exp(x))); });
}

Tensor celu(const Tensor& self, const Scalar& alpha) {
  const double inverse = 1.0 / alpha.toDouble();
  return in_wide(self, [&](const Tensor& x) { return at::where(x > 0, x, alpha * at::expm1(x * inverse)); });
}

Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  return in_wide(self, [&](const Tensor& x) {
    const Tensor scaled = x * beta;
    return at::where(scaled > threshold, x, at::log1p(at::exp(scaled)) / beta);
  });
}

Tensor softplus_backward(const Tensor& grad, const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor z = at::exp(self.to(g.scalar_type()) * beta);
    return at::where((self * beta) > threshold, g, g * z / (z + 1.0));
  });
}

Tensor hardshrink(const Tensor& self, const Scalar& lambda) {
  return at::where(at::abs(self) <= lambda, Scalar(0), self);
}

Tensor softshrink(const Tensor& self, const Scalar& lambda) {
  return in_wide(self,
                 [&](const Tensor& x) { return at::where(at::abs(x) > lambda, x - at::sign(x) * lambda, x * 0); });
}

Tensor threshold(const Tensor& self, const Scalar& threshold, const Scalar& value) {
  return at::where(self <= threshold, value, self);
}

Tensor sigmoid_backward(const Tensor& grad, const Tensor& output) {
  return grad * (output * minus(1, output)).conj_physical();
}

Tensor tanh_backward(const Tensor& grad, const Tensor& output) {
  return grad * minus(1, output * output).conj_physical();
}

Tensor gelu_backward(const Tensor& grad, const Tensor& self, c10::string_view approximate) {
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor x = self.to(g.scalar_type());
    if (approximate == "tanh") {
      constexpr double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * 2 * 0.5, kappa = 0.044715;
      const Tensor square = x * x, cube = square * x;
      const Tensor inner = beta * (x + kappa * cube), bent = at::tanh(inner);
      const Tensor left = 0.5 * x, right = bent + 1;
      return g * (0.5 * right + left * minus(1, bent * bent) * (beta * (3 * kappa * square + 1)));
    }
    constexpr double alpha = std::numbers::sqrt2 / 2, beta = std::numbers::inv_sqrtpi * std::numbers::sqrt2 * 0.5;
    const Tensor cdf = 0.5 * (at::erf(x * alpha) + 1), pdf = beta * at::exp(x * x * -0.5);
    return g * (cdf + x * pdf);
  });
}

Tensor elu_backward(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                    bool is_result, const Tensor& given) {
  const double slope = alpha.toDouble() * scale.toDouble();
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor x = given.to(g.scalar_type());
    if (is_result) return at::where(x <= 0, g * input_scale * (x + slope), g * scale);
    return at::where(x <= 0, g * (input_scale.toDouble() * slope) * at::exp(x * input_scale), g * scale);
  });
}

Tensor glu(const Tensor& self, int64_t dim) {
  const auto halves = self.chunk(2, dim);
  return in_wide(halves[0], [&](const Tensor& x) { return x * at::sigmoid(halves[1].to(x.scalar_type())); });
}

Tensor native_dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  return (grad * (mask.to(grad.scalar_type()) * scale)).clone();
}

}  // namespace

c10::ArrayRef<DecompositionRow> activation_rows() {
  static constexpr DecompositionRow rows[] = {
      row<hardsigmoid>("hardsigmoid"),
      row<hardsigmoid_backward>("hardsigmoid_backward"),
      row<hardswish>("hardswish"),
      row<hardtanh_backward>("hardtanh_backward"),
      row<threshold_backward>("threshold_backward"),
      row<leaky_relu_backward>("leaky_relu_backward"),
      row<silu>("silu"),
      row<silu_backward>("silu_backward"),
      row<mish>("mish"),
      row<celu>("celu"),
      row<softplus>("softplus"),
      row<softplus_backward>("softplus_backward"),
      row<hardshrink>("hardshrink"),
      row<softshrink>("softshrink"),
      row<threshold>("threshold"),
      row<sigmoid_backward>("sigmoid_backward"),
      row<tanh_backward>("tanh_backward"),
      row<gelu_backward>("gelu_backward"),
      row<elu_backward>("elu_backward"),
      row<glu>("glu"),
      row<native_dropout_backward>("native_dropout_backward"),
  };
  return rows;
}

}  // namespace stator::passes
