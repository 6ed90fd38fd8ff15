#pragma once

#include <ATen/core/stack.h>

#include "core/fake/rule.h"

/// Sizes and numbers that depend on data, and which operators take them.
namespace stator::fake {

/// Refuses a call with such a number, or with a tensor that has such a size, unless the operator's shape function is
/// known to hold for every value that it may have.
void check_symbols(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// Names the operators ("aten::add.Tensor") that take them.
void take_symbols(c10::ArrayRef<const char*> names);

bool is_symbolic(const at::Tensor& tensor);
/// Whether the strides are those of a new row-major tensor of its sizes. Empty tensors apart, whose strides mean
/// nothing.
bool is_row_major(const at::Tensor& tensor);

}  // namespace stator::fake
