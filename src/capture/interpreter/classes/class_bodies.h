#pragma once

#include "capture/interpreter/opcodes/handlers.h"

/// Instructions that only stand in the body of a class, or work there in another way.
namespace stator::capture {

HandlerFunction on_load_build_class, on_load_name, on_store_name, on_delete_name, on_load_locals, on_load_class_deref,
    on_load_from_dict_or_globals, on_setup_annotations;

}  // namespace stator::capture
