#pragma once

#include "capture/interpreter/interpreter.h"

/// Attributes of functions.
namespace stator::capture {

/// Null when there is none.
Value* function_attr(Interpreter& in, FunctionValue* function, PyObject* name);
void set_function_attr(Interpreter& in, FunctionValue* function, PyObject* name, Value* to);

}  // namespace stator::capture
