#pragma once

#include "capture/interpreter/protocol/handlers.h"

/// Globals, attributes, imports.
namespace stator::capture {

HandlerFunction on_load_global, on_store_global, on_delete_global, on_load_attr, on_load_method, on_load_super_attr,
    on_store_attr, on_delete_attr, on_import_name, on_import_from;

}  // namespace stator::capture
