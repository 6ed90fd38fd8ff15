#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// Whether the program can still reach the value: from its frames, from what it wrote elsewhere, or from `result`.
bool is_reachable(const Interpreter& in, const Value* value, const Value* result);

}  // namespace stator::capture
