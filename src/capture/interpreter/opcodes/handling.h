#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// Exceptions and `with`.
namespace stator::capture {

HandlerFunction on_before_with, on_with_except_start, on_push_exc_info, on_pop_except, on_check_exc_match, on_reraise,
    on_raise_varargs;

}  // namespace stator::capture
