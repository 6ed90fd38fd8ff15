#pragma once

#include "capture/interpreter/interpreter.h"

/// Models of loops as operators. The body is interpreted once and becomes a graph; a node runs it again and again.
namespace stator::capture {

Value* while_loop(Interpreter& in, CallArgs& args);
Value* map_rows(Interpreter& in, CallArgs& args);
Value* scan(Interpreter& in, CallArgs& args);
/// Of what torch has its own compiler trace: here it is traced already.
Value* run_in_place(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
