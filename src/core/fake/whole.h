#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "core/base/export.h"

/// Composite operators whose own program looks at data although the metadata of their results does not depend on it:
/// they check values, or have a fast path over memory. Run on fakes they would read data above the `Fake` key, so
/// whoever records operators answers them whole.
namespace stator::fake {

struct Whole;

/// Null for operators (and uses of them: the arguments are on top of the stack) whose program can run on fakes.
STATOR_API const Whole* whole_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// Replaces the arguments on top of the stack by results. `keys` is what the operator would be called with next;
/// results that autograd would follow have a `grad_fn`, which says nothing of the way a real backward pass takes.
STATOR_API void answer_whole(const Whole& whole, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack);

}  // namespace stator::fake
