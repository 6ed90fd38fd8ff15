#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Calls a special method of a built-in class by name (`dict_keys.__contains__`): does what the operator does. Null if
/// it is not such a method, or the class of the value overrides it.
Value* call_slot(Interpreter& in, PyObject* callable, CallArgs& args);

}  // namespace stator::capture
