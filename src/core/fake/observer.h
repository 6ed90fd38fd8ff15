#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "core/base/export.h"

namespace stator::fake {

/// Sees the operators that reach the `Fake` key, which is below autograd. Composite operators that autograd decomposes
/// are seen as the operators they call. Calls made by a shape function are not seen.
class STATOR_API Observer {
 public:
  virtual ~Observer() = default;
  /// Called first, for every operator. True if it did all that is to be done: the results are on top of the stack.
  virtual bool intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    return false;
  }
  /// The arguments are on top of the stack.
  virtual void before(const c10::OperatorHandle& op, const torch::jit::Stack& stack) = 0;
  /// The results are on top of the stack. Not called if the operator was refused or raised.
  virtual void after(const c10::OperatorHandle& op, const torch::jit::Stack& stack) = 0;
};

/// RAII: `observer` (null: none) sees this thread's operators.
class STATOR_API ObserverScope {
 public:
  explicit ObserverScope(Observer* observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;

 private:
  Observer* previous_;
};

/// RAII: a trace runs on this thread. Operators of threads that neither trace nor capture, on tensors of a trace, are
/// refused while one runs: no graph would have them.
class STATOR_API TraceRuns {
 public:
  TraceRuns();
  ~TraceRuns();
  TraceRuns(const TraceRuns&) = delete;
  /// Whether such an operator was refused in the meantime.
  bool saw_stray() const;

 private:
  const uint64_t strays_before_;
};

/// Runs the shape function of the operator: results replace the arguments on top of the stack. The observer sees
/// nothing but the parts of a composite operator that autograd decomposes.
STATOR_API void run_shape_function(const c10::OperatorHandle& op, torch::jit::Stack* stack);
/// Whether autograd decomposes the operator into others.
STATOR_API bool is_decomposed_by_autograd(const c10::OperatorHandle& op);

}  // namespace stator::fake
