#pragma once

#include "core/base/export.h"

namespace stator::shapes {

/// Whether operators on this thread may return fakes with unbacked sizes. The caller of torch allows them if it can
/// record how a run of the graph gets their values.
STATOR_API bool symbols_allowed();
/// Returns the previous setting.
STATOR_API bool allow_symbols(bool allowed);

}  // namespace stator::shapes
