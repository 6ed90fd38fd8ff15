#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Tensors as containers, by the methods of Tensor itself, even if a subclass overrides them.
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
