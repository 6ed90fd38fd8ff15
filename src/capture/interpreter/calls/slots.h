#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// A slot of a built-in class called by name (`dict_keys.__contains__`): what the language does with the value. Null
/// where it is none, or where the value's class is another.
Value* call_slot(Interpreter& in, PyObject* callable, CallArgs& args);

}  // namespace stator::capture
