#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>

/// `out=` overloads that no table names, answered through the overload that makes its results.
namespace stator::fake {

/// The overload of the same operator with the same arguments but for the `out` ones; none if this is no such overload.
std::optional<c10::OperatorHandle> without_outs(const c10::OperatorHandle& op);

/// `answer` replaces the arguments of `functional` on a stack by its results. An `out` of the right size is left as it
/// is, another one becomes row-major; refused where a kernel might do otherwise.
void answer_outs(const c10::OperatorHandle& op, const c10::OperatorHandle& functional, torch::jit::Stack* stack,
                 const std::function<void(torch::jit::Stack*)>& answer);

}  // namespace stator::fake
