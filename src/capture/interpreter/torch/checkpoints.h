#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// The model of torch.utils.checkpoint.checkpoint, in the form that is not reentrant: the part becomes a graph of its
/// own, and a node that has torch checkpoint it.
Value* checkpoint(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
