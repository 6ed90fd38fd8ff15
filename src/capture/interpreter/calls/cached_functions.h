#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// A call of a function that functools.lru_cache made. What the cache holds, its order and its counters are after a
/// run what the program's own calls would have made of them.
Value* call_cached(Interpreter& in, ConstantValue* callee, CallArgs args);

}  // namespace stator::capture
