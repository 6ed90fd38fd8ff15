#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/where.h>

#include "core/passes/decompositions/helpers.h"
#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

using at::Tensor;
using decompositions::reduced;

Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  const Tensor difference = self - target;
  return reduced(difference * difference, reduction);
}

Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta) {
  const Tensor distance = at::abs(self - target);
  return reduced(at::where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta), reduction);
}

Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  const Tensor distance = at::abs(self - target);
  return reduced(at::where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta)), reduction);
}

Tensor soft_margin_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced(at::log1p(at::exp(-self * target)), reduction);
}

}  // namespace

c10::ArrayRef<DecompositionRow> loss_rows() {
  static constexpr DecompositionRow rows[] = {
      row<mse_loss>("mse_loss"),
      row<smooth_l1_loss>("smooth_l1_loss"),
      row<huber_loss>("huber_loss"),
      row<soft_margin_loss>("soft_margin_loss"),
  };
  return rows;
}

}  // namespace stator::passes
