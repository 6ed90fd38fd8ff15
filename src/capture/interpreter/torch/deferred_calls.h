#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The call of a pure C function on symbolic ints, or on texts made of such, that cannot raise: the plan makes it when
/// it ends. Null for other calls.
Value* deferred_call(Interpreter& in, PyObject* callable, const CallArgs& args);
/// An attribute of a symbolic int, or of a text made of symbolic ints, that can be read without specialising the int:
/// `real`, `denominator`, or a bound method that `deferred_call` takes. Null for other attributes.
Value* deferred_attribute(Interpreter& in, Value* value, PyObject* name);

}  // namespace stator::capture
