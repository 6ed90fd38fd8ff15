#pragma once

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// Compilers delete operators whose results are not needed; but one that may raise must run. Adds an output to the
/// graph for each operator that may raise and on whose data no output depends: a copy of a result, without gradients.
/// Nothing reads these outputs; they follow all others. Needs the fakes.
STATOR_API void keep_failures(graph::Graph& graph);

}  // namespace stator::backend
