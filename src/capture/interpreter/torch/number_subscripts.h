#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// The view that `tensor[key]` is where the key holds integers that depend on data, as numbers or as tensors without
/// dimensions: torch's binding would have to know them. Null where it holds none, or tensors and lists besides.
Value* subscript_by_numbers(Interpreter& in, TensorValue* tensor, Value* key);

}  // namespace stator::capture
