#pragma once

#include "capture/interpreter/models/model.h"

namespace stator::capture {

/// `torch.tensor` of a tensor, or of lists in which tensors without dimensions or numbers that depend on data stand
/// between plain numbers: the graph makes a copy. Null where there is no such thing in it.
Value* tensor_of_parts(Interpreter& in, const CallArgs& args);

}  // namespace stator::capture
