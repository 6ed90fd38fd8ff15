#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Scalar;
using at::Tensor;
using decompositions::in_wide;
using decompositions::mean_factor;
using decompositions::minus;
using decompositions::reduced;
using decompositions::wide;
using OptionalTensor = std::optional<Tensor>;

Tensor mse_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  return in_wide(grad, [&](const Tensor& g) {
    return (wide(self) - wide(target)) * Scalar(mean_factor(self, reduction) * c10::SymFloat(2.0)) * g;
  });
}

/// `inner` within the bound, and `slope` with the sign of the difference outside.
Tensor by_bound(const Tensor& difference, double bound, const Tensor& slope, const Tensor& inner) {
  return at::where(difference <= -bound, -slope, at::where(difference >= bound, slope, inner));
}

Tensor smooth_l1_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                               double beta) {
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor difference = wide(self) - wide(target);
    const Tensor slope = (g * Scalar(mean_factor(self, reduction))).expand_as(difference);
    return by_bound(difference, beta, slope, slope * difference / beta);
  });
}

Tensor huber_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                           double delta) {
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor difference = wide(self) - wide(target);
    const Tensor slope = (g * Scalar(mean_factor(self, reduction))).expand_as(difference);
    return by_bound(difference, delta, slope * delta, slope * difference);
  });
}

Tensor soft_margin_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor y = wide(target), z = at::exp(-y * wide(self));
    return y * z * Scalar(mean_factor(self, reduction) * c10::SymFloat(-1.0)) / (z + 1) * g;
  });
}

Tensor binary_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                     const OptionalTensor& weight, int64_t reduction) {
  constexpr double kLeast = 1e-12;
  return in_wide(grad, [&](const Tensor& g) {
    const Tensor x = wide(self);
    Tensor made = g * (x - wide(target)) / at::clamp_min(minus(1, x) * x, kLeast);
    if (weight) made = made * wide(*weight);
    return reduction == 1 ? made * Scalar(mean_factor(self, reduction)) : made;
  });
}

Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                                        const OptionalTensor& positive_weight, int64_t reduction) {
  Tensor likelihood = at::log_sigmoid(self);
  if (positive_weight) likelihood = likelihood * ((*positive_weight - 1) * target + 1);
  Tensor loss = minus(1, target) * self - likelihood;
  if (weight) loss = loss * *weight;
  return reduced(loss, reduction);
}

/// What the functions below share: where the classes are, and which rows count.
struct Classes {
  Classes(const Tensor& self, const Tensor& target, const c10::SymInt& ignored)
      : dim(self.dim() < 2 ? 0 : 1), counts(at::ne(target, Scalar(ignored))), safe(at::where(counts, target, 0)) {}

  Tensor pick(const Tensor& from) const { return at::gather(from, dim, safe.unsqueeze(dim)).squeeze(dim); }
  Tensor per_class(const Tensor& self, const Tensor& weight) const {
    if (self.dim() < 2) return weight;
    std::vector<int64_t> shape(self.dim(), 1);
    shape[1] = -1;
    return weight.view(shape);
  }

  int64_t dim;
  Tensor counts, safe;
};

std::optional<std::tuple<Tensor, Tensor>> nll_loss_forward(const Tensor& self, const Tensor& target,
                                                           const OptionalTensor& weight, int64_t reduction,
                                                           const c10::SymInt& ignored) {
  if (decompositions::is_low_precision(self) || self.dim() == 0) return std::nullopt;
  const Classes classes(self, target, ignored);
  const bool has_weight = weight && weight->defined();
  const Tensor weights = has_weight ? classes.per_class(self, *weight) : Tensor();
  const Tensor found = -classes.pick(has_weight ? self * weights : self);
  const Tensor loss = at::where(classes.counts, found, Scalar(0));
  if (reduction == 0 && self.dim() > 1) return std::tuple(loss, self.new_zeros({}));
  const Tensor total = has_weight ? at::where(classes.counts, classes.pick(weights.expand_as(self)), Scalar(0)).sum()
                                  : classes.counts.sum().to(self.scalar_type());
  if (reduction == 0) return std::tuple(loss, total);
  return std::tuple(reduction == 2 ? loss.sum() : loss.sum() / total, total);
}

std::optional<Tensor> nll_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                        const OptionalTensor& weight, int64_t reduction, const c10::SymInt& ignored,
                                        const Tensor& total) {
  if (self.dim() == 0) return std::nullopt;
  const Classes classes(self, target, ignored);
  Tensor scale = reduction == 1 ? grad / total : grad;
  if (scale.dim() > 0 && scale.dim() < self.dim()) scale = scale.unsqueeze(classes.dim);
  if (weight && weight->defined()) scale = scale * classes.per_class(self, *weight);
  const Tensor chosen = at::scatter(at::zeros_like(self), classes.dim, classes.safe.unsqueeze(classes.dim), -1.0);
  return chosen * at::where(classes.counts.unsqueeze(classes.dim), scale, Scalar(0));
}

}  // namespace

c10::ArrayRef<DecompositionRow> loss_backward_rows() {
  static constexpr DecompositionRow rows[] = {
      row<mse_loss_backward>("mse_loss_backward"),
      row<smooth_l1_loss_backward>("smooth_l1_loss_backward"),
      row<huber_loss_backward>("huber_loss_backward"),
      row<soft_margin_loss_backward>("soft_margin_loss_backward"),
      row<binary_cross_entropy_backward>("binary_cross_entropy_backward"),
      row<binary_cross_entropy_with_logits>("binary_cross_entropy_with_logits"),
      row<nll_loss_forward>("nll_loss_forward"),
      row<nll_loss_forward>("nll_loss2d_forward"),
      row<nll_loss_backward>("nll_loss_backward"),
      row<nll_loss_backward>("nll_loss2d_backward"),
  };
  return rows;
}

}  // namespace stator::passes
