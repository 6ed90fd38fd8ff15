#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Whether the program may have dropped the last reference to an external object so far. (The object still exists,
/// since effects are replayed when the plan ends.) Runs no code of the program.
bool may_have_dropped(const Interpreter& in, PyObject* object);

}  // namespace stator::capture
