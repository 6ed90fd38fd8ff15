#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string_view>

#include "core/base/export.h"

/// Native decompositions: what an operator does, in terms of simpler ones, written as calls of ATen. They run on fakes
/// below autograd, with plain or symbolic sizes; what they call is recorded (Builder::observe).
namespace stator::passes {

/// Replaces the arguments on the stack by the results. False if the arguments are of a kind that it does not cover:
/// then the operator stays.
using Decomposition = bool (*)(const c10::OperatorHandle& op, torch::jit::Stack& stack);

struct DecompositionRow {
  std::string_view name;  // `gelu`: of ATen, the overload without a name; `addcmul.out`: that overload
  Decomposition decomposition;
};

/// The operator's row in the table; for a composite operator without a row, its kernel. Null if it has neither.
STATOR_API const Decomposition* find_decomposition(const c10::OperatorHandle& op);

}  // namespace stator::passes
