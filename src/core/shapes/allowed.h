#pragma once

#include "core/base/export.h"

namespace stator::shapes {

/// Whether results may have sizes that depend on data on this thread: whoever calls into torch must be able to tell
/// them when the graph runs.
STATOR_API bool symbols_allowed();
/// Returns what it was.
STATOR_API bool allow_symbols(bool allowed);

}  // namespace stator::shapes
