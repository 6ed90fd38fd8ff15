#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// An attribute of a tensor: metadata as constants, views as recorded operators, methods bound; breaks for what would
/// show a fake's inside (an address, a hook, ...). Null when there is none.
Value* tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name);
/// `tensor.name = to`.
void set_tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to);
/// The model of Tensor.requires_grad_.
Value* tensor_requires_grad(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
