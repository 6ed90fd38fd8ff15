#pragma once

#include <vector>

#include "capture/interpreter/protocol/interpreter.h"

/// Parts of a program that become sub-graphs of a node: a checkpointed function, a branch of
/// `torch.cond`, the body of a loop.
namespace stator::capture {

/// RAII: turns grad mode on or off.
class GradModeScope {
 public:
  explicit GradModeScope(bool on);
  ~GradModeScope();
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool before_;
};
bool grad_mode();

/// Interprets a call of the function. The part may run any number of times, so a change of something that existed
/// before it is a break, and so is an exception.
Value* run_part(Interpreter& in, Value* function, CallArgs args, const std::string& what);

/// Whether tensors of a subclass that a part makes keep their class: then the plan gives it to what the node returns.
enum class Subclasses : uint8_t { Refused, Kept };

/// The tensors in a result, in order. Breaks for values that may hold tensors which are not visible.
void collect_tensors(Interpreter& in, Value* value, const std::string& what, std::vector<TensorValue*>& tensors,
                     Subclasses subclasses = Subclasses::Refused);

/// Whether it is a tensor that requires grad.
bool requires_grad(Interpreter& in, Value* value);

}  // namespace stator::capture
