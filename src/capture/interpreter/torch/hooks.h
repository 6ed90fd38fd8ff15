#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Hooks on tensors. Only a backward pass calls them, so the plan registers and removes them when it ends.
namespace stator::capture {

// ---- models of torch's methods
Value* register_hook(Interpreter& in, CallArgs& args);
Value* register_post_accumulate_hook(Interpreter& in, CallArgs& args);
Value* retain_grad(Interpreter& in, CallArgs& args);
/// The model of `remove` for a handle that the plan makes; null for external handles, whose method is interpreted.
Value* remove_hook(Interpreter& in, CallArgs& args);
Value* enter_handle(Interpreter& in, CallArgs& args);

/// The class of the result of a deferred call; null if it is not known.
PyTypeObject* deferred_class(const OpaqueValue* made);
/// Whether the plan registers hooks on external tensors.
bool has_deferred_hooks(const Interpreter& in);

}  // namespace stator::capture
