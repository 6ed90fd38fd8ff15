#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The model of torch.utils.checkpoint.checkpoint, in the form that is not reentrant: the function becomes a sub-graph
/// of a `stator::checkpoint` node.
Value* checkpoint(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
