#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// The stack, local variables and cells.
namespace stator::capture {

HandlerFunction on_nop, on_pop_top, on_push_null, on_copy, on_swap, on_load_const, on_load_fast, on_load_fast_and_clear,
    on_store_fast, on_delete_fast, on_make_cell, on_copy_free_vars, on_load_closure, on_load_deref, on_store_deref,
    on_delete_deref;

}  // namespace stator::capture
