#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// What a Python function of a library does, if its body uses something that can't be captured: a lock, a weak cache,
/// the number of the thread. It is recognised by its code object.
using KnownCode = Value* (*)(Interpreter&, FunctionValue*, CallArgs&);
/// Null for all other code.
KnownCode known_code(PyCodeObject* code);

}  // namespace stator::capture
