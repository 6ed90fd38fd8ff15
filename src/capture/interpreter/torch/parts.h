#pragma once

#include <vector>

#include "capture/interpreter/interpreter.h"

/// Parts of a program that become graphs of their own, which a node calls: a checkpointed function, a branch of
/// `torch.cond`, the body of a loop.
namespace stator::capture {

/// Calls the function as if nothing were special about it. The part may run any number of times, so what it does
/// besides operators (a change of something older than itself) is a break, as is an exception.
Value* run_part(Interpreter& in, Value* function, CallArgs args, const std::string& what);

/// The tensors in a result, in order; breaks for what may hold others out of sight.
void collect_tensors(Interpreter& in, Value* value, const std::string& what, std::vector<TensorValue*>& tensors);

/// Whether it is a tensor that gradients are computed for.
bool requires_grad(Interpreter& in, Value* value);

}  // namespace stator::capture
