#pragma once

#include <ATen/core/stack.h>

#include "core/fake/rule.h"

/// Fakes with symbolic sizes (core/shapes).
namespace stator::fake {

/// Refuses a call of an operator with the trait `PlainSizes` if a number or a size of a tensor is symbolic.
void check_symbols(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

bool is_symbolic(const at::Tensor& tensor);
/// Whether a number among the arguments, or a size of a tensor among them, is symbolic.
bool takes_symbols(const Args& args);
/// Whether the strides are those of a new row-major tensor of these sizes, or the tensor is empty.
bool is_row_major(const at::Tensor& tensor);

}  // namespace stator::fake
