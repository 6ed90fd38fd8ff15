#pragma once

#include "capture/interpreter/interpreter.h"

/// Functions that a user said to only call operators (torch's `allow_in_graph`). They are captured like others, and
/// become one node, which calls them, where something in them is not understood.
namespace stator::capture {

/// Whether code of such a function runs, or of what it called.
bool is_within_allowed(const Interpreter& in);
/// The code of the innermost such function that the capture has called and that has not returned; null: none.
PyCodeObject* allowed_code(const Interpreter& in);

/// Calls it on fakes, as its author said it may be, and records the node. Breaks where it cannot be one: it asks for
/// data, writes to its arguments or gives a view of them, or takes what no graph can hold.
Value* call_as_node(Interpreter& in, FunctionValue* function, const CallArgs& args);

}  // namespace stator::capture
