#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Why the backward of an autograd function may not be traced ahead of time, as a Python str; empty if it may. Guards
/// the names that it reads then. `type`: the class. `context`: what forward kept, with slots in place of tensors.
Ref guard_backward(Interpreter& in, Value* function, PyObject* type, PyObject* context);

}  // namespace stator::capture
