#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Binds the arguments of a call to the slots of the function's frame, by CPython's rules. Raises the program's
/// TypeError where they do not fit.
void bind_arguments(Interpreter& in, FunctionValue* function, const pycompat::Code& code, CallArgs& args, Frame& frame);

}  // namespace stator::capture
