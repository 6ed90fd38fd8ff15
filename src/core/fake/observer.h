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

}  // namespace stator::fake
