#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// Instructions that occur only in the body of a class, or behave differently there.
namespace stator::capture {

HandlerFunction on_load_build_class, on_load_name, on_store_name, on_delete_name, on_load_locals, on_load_class_deref,
    on_load_from_dict_or_globals, on_setup_annotations;

}  // namespace stator::capture
