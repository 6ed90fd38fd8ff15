#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <numbers>

#include "core/passes/decompositions/topics.h"
#include "core/passes/decompositions/unboxed.h"

namespace stator::passes {
namespace {

at::Tensor hardsigmoid(const at::Tensor& self) { return (self + 3).clamp(0, 6) / 6; }

}  // namespace

c10::ArrayRef<DecompositionRow> activation_rows() {
  static constexpr DecompositionRow rows[] = {row<hardsigmoid>("hardsigmoid")};
  return rows;
}

}  // namespace stator::passes
