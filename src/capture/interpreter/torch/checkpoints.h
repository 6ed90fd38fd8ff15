#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The model of torch.utils.checkpoint.checkpoint: the function becomes a sub-graph of a `stator::checkpoint` node. For
/// the reentrant form it is interpreted twice, because torch runs it first without gradients and then with them.
Value* checkpoint(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
