#pragma once

#include "capture/interpreter/state/call_args.h"

namespace stator::capture {

/// `torch.tensor` of a tensor, or of lists that contain tensors without dimensions or symbolic numbers: the graph makes
/// the copy. Null if the data has none of these.
Value* tensor_of_parts(Interpreter& in, const CallArgs& args);

}  // namespace stator::capture
