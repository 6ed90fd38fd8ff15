#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// A native replacement for a Python function of a library whose body cannot be captured: it uses a lock, a weak cache,
/// or the number of the thread. The function is recognised by its code object.
using KnownCode = Value* (*)(Interpreter&, FunctionValue*, CallArgs&);
/// Null for all other code.
KnownCode known_code(PyCodeObject* code);

}  // namespace stator::capture
