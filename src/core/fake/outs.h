#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>

/// Overloads that write to their arguments and have no row in the operator table, answered through the overload that
/// returns new tensors.
namespace stator::fake {

/// The overload of the same operator that has the same arguments without the `out` ones. None if there is none.
std::optional<c10::OperatorHandle> without_outs(const c10::OperatorHandle& op);

/// The overload that returns new tensors, of an `out=` or in-place overload. None if there is none. Cached.
std::optional<c10::OperatorHandle> functional_form(const c10::OperatorHandle& op);

/// `answer` replaces the arguments of `functional` on a stack by its results. An `out` of the right size stays as it
/// is; another one becomes row-major. The target of an in-place overload must have the size of the result. Refuses if a
/// kernel might do otherwise.
void answer_outs(const c10::OperatorHandle& op, const c10::OperatorHandle& functional, torch::jit::Stack* stack,
                 const std::function<void(torch::jit::Stack*)>& answer);

}  // namespace stator::fake
