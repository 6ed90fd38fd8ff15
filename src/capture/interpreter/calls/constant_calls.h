#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Calls an object that is guarded by identity: a C function or method, a class, a bound method of a literal.
Value* call_constant(Interpreter& in, ConstantValue* callee, CallArgs& args, CallMode mode);

}  // namespace stator::capture
