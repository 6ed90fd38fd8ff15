#pragma once

#include "capture/interpreter/interpreter.h"

/// Tensors as containers, as Tensor itself has it, whatever a subclass makes of it.
namespace stator::capture {

/// `tensor[key]`.
Value* tensor_item(Interpreter& in, TensorValue* tensor, Value* key);
/// `tensor[key] = to`.
void set_tensor_item(Interpreter& in, TensorValue* tensor, Value* key, Value* to);
/// `len(tensor)`.
Value* tensor_length(Interpreter& in, TensorValue* tensor);
/// `iter(tensor)`.
Value* tensor_iterator(Interpreter& in, TensorValue* tensor);

}  // namespace stator::capture
