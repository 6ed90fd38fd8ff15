#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Calls an object that is guarded by identity: a C function or method, a class, a bound method of a literal.
Value* call_constant(Interpreter& in, ConstantValue* callee, CallArgs& args, CallMode mode);

/// Calls a function that tells of the process or thread. Its answer must be a literal; a guard calls it again.
Value* ask_again(Interpreter& in, PyObject* callable, const CallArgs& args);

}  // namespace stator::capture
