#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// Jumps, loops, returns, generators.
namespace stator::capture {

HandlerFunction on_jump, on_pop_jump_if_true, on_pop_jump_if_false, on_pop_jump_if_none, on_pop_jump_if_not_none,
    on_jump_if_true_or_pop, on_jump_if_false_or_pop, on_get_iter, on_for_iter, on_return_value, on_return_const,
    on_yield_value, on_return_generator, on_get_yield_from_iter, on_send, on_cleanup_throw, on_end_send;

}  // namespace stator::capture
