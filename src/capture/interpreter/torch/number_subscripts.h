#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The view `tensor[key]` for a key with integers that depend on data: symbolic numbers, or tensors without dimensions.
/// Torch's binding would read their values. Null if the key has none, or has other tensors or lists too.
Value* subscript_by_numbers(Interpreter& in, TensorValue* tensor, Value* key);

}  // namespace stator::capture
