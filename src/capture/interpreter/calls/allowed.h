#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Functions that a user allowed in graphs (torch's `allow_in_graph`): they only call operators. For a Python backend,
/// whose user can see it, the call is one node if it can be one. Otherwise they are captured like others, and one that
/// can't be captured becomes a node.
namespace stator::capture {

/// Whether such a function is running: the current frame, or one of its callers.
bool is_within_allowed(const Interpreter& in);
/// The code of the innermost such function that is running, other than the captured frame itself; null: none.
PyCodeObject* allowed_code(const Interpreter& in);

/// Calls it on fakes and records the node. Breaks if it can't be a node: it reads data, writes to its arguments,
/// returns a view of them, or has arguments that no graph can hold.
Value* call_as_node(Interpreter& in, FunctionValue* function, const CallArgs& args);
/// The same; null where that would break.
Value* try_as_node(Interpreter& in, FunctionValue* function, const CallArgs& args);

}  // namespace stator::capture
