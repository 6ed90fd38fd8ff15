#pragma once

#include "capture/interpreter/interpreter.h"

/// Hooks on tensors. Only a backward pass sees them, so the plan registers and removes them when it ends.
namespace stator::capture {

// ---- models of what torch has for them
Value* register_hook(Interpreter& in, CallArgs& args);
Value* register_post_accumulate_hook(Interpreter& in, CallArgs& args);
Value* retain_grad(Interpreter& in, CallArgs& args);
/// Of a handle that the plan makes. Null for others, which are objects like any.
Value* remove_hook(Interpreter& in, CallArgs& args);
Value* enter_handle(Interpreter& in, CallArgs& args);

/// The class of what a deferred call gives; null where that is not known.
PyTypeObject* deferred_class(const OpaqueValue* made);
/// Whether outside tensors get hooks when the plan ends.
bool has_deferred_hooks(const Interpreter& in);

}  // namespace stator::capture
