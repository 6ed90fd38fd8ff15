#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// What a Python function of a library does, where inlining its body would meet something that no capture can hold: a
/// lock, a cache by weak reference, the number of a thread. Known by its code object.
using KnownCode = Value* (*)(Interpreter&, FunctionValue*, CallArgs&);
/// Null for all other code.
KnownCode known_code(PyCodeObject* code);

}  // namespace stator::capture
