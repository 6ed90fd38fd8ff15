#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Models of loop operators. The body is interpreted once and becomes a sub-graph, which a node runs repeatedly.
namespace stator::capture {

Value* while_loop(Interpreter& in, CallArgs& args);
Value* map_rows(Interpreter& in, CallArgs& args);
Value* scan(Interpreter& in, CallArgs& args);
/// The model of functions for which torch would start its own compiler: calls the function directly.
Value* run_in_place(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
