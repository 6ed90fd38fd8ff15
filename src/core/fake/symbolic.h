#pragma once

#include <ATen/core/stack.h>

#include "core/fake/rule.h"

/// Fakes with symbolic sizes (core/shapes).
namespace stator::fake {

/// Refuses a call with a symbolic number, or with a tensor of symbolic sizes, unless the operator has the trait
/// `Symbolic`.
void check_symbols(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

bool is_symbolic(const at::Tensor& tensor);
/// Whether the strides are those of a new row-major tensor of these sizes, or the tensor is empty.
bool is_row_major(const at::Tensor& tensor);

}  // namespace stator::fake
