#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// An attribute of a tensor: metadata as constants, views as recorded operators, methods bound; breaks for what would
/// show a fake's inside (data, grad, grad_fn, ...). Null when there is none.
Value* tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name);

}  // namespace stator::capture
