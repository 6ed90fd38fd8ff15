#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// Calls, and making functions.
namespace stator::capture {

HandlerFunction on_call, on_call_function_ex, on_make_function, on_load_assertion_error, on_call_intrinsic_1;

}  // namespace stator::capture
