#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// Operators, subscripts, and the tests of `match`.
namespace stator::capture {

HandlerFunction on_binary_op, on_binary_subscr, on_binary_slice, on_store_subscr, on_store_slice, on_delete_subscr,
    on_unary, on_to_bool, on_compare, on_is, on_contains, on_match_sequence, on_match_mapping, on_match_keys,
    on_match_class;

}  // namespace stator::capture
