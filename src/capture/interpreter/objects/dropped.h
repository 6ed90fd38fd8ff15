#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Whether the program may have dropped the last reference to an external object so far. (The object still exists,
/// since effects are replayed when the plan ends.) The answer is guarded: in a later call, what the program drops may
/// hold the object at this source. Runs no code of the program.
bool may_have_dropped(Interpreter& in, Source* source);

}  // namespace stator::capture
