#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

#include "core/base/export.h"
#include "core/fake/rule.h"

/// Composite operators whose implementation looks at data although the metadata of their results does not depend on it:
/// they check values, or have a fast path over raw memory. Others look at plain sizes, and can't run if those are
/// symbolic. On fakes they would read data above the `Fake` key, where no shape function can help. The tracer above
/// autograd looks here first and records such an operator as one node.
namespace stator::fake {

/// How a composite operator is answered without data.
struct CompositeAnswer {
  /// Whether it is answered so for these arguments. Null: always.
  bool (*applies)(const Args& args) = nullptr;
  /// The shape function. Null: the composite's own implementation runs on fakes, and `aten::equal` answers `assumed`
  /// there.
  Rule rule = nullptr;
  bool assumed = true;
  /// Runs in place of the implementation, above autograd, and calls other operators. Unless null, the rest is ignored.
  Rule program = nullptr;
  /// The answer where `applies` does not hold; null: none.
  const CompositeAnswer* otherwise = nullptr;
  /// The implementation looks at the memory of its arguments: it can't run on fakes of plain sizes either.
  bool reads_memory = false;
};

/// Null if the operator, with the arguments on top of the stack, can run on fakes as it is.
STATOR_API const CompositeAnswer* find_composite_answer(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// Replaces the arguments on top of the stack by results. `keys` is what the operator would be called with next.
/// Results that require grad get a placeholder `grad_fn`; the backward graph of a real run looks different.
STATOR_API void answer_composite(const CompositeAnswer& answer, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                 torch::jit::Stack* stack);

/// Runs the implementation of a composite operator, which calls other operators. Kernels take fakes for subclasses, and
/// may then return a new tensor in place of their `out` argument: its contents are written to the argument.
STATOR_API void run_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// The same from the top of the dispatcher.
STATOR_API void call_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// What `aten::equal` answers on fakes of this thread now; none: it is refused.
std::optional<bool> assumed_equality();

}  // namespace stator::fake
