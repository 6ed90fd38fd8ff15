#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// A call of a function that functools.lru_cache made. After a run the cache's entries, order and counters are what the
/// program's own calls would have left.
Value* call_cached(Interpreter& in, ConstantValue* callee, CallArgs args);

}  // namespace stator::capture
