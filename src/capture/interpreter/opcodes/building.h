#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// Making, filling and unpacking containers and strings.
namespace stator::capture {

HandlerFunction on_build_tuple, on_build_list, on_build_set, on_build_map, on_build_const_key_map, on_build_slice,
    on_build_string, on_list_append, on_list_extend, on_list_to_tuple, on_set_add, on_set_update, on_map_add,
    on_dict_update, on_dict_merge, on_unpack_sequence, on_unpack_ex, on_format_value, on_get_len;

}  // namespace stator::capture
