#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Attributes of functions.
namespace stator::capture {

/// Null if there is no such attribute.
Value* function_attr(Interpreter& in, FunctionValue* function, PyObject* name);
void set_function_attr(Interpreter& in, FunctionValue* function, PyObject* name, Value* to);

}  // namespace stator::capture
