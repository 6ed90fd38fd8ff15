#pragma once

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// Whether the node raises on any tensors with these dtypes and layouts: kernels reject some dtypes and overlapping
/// memory, which shape functions do not check. Runs the node on zeros of the same dtypes and layouts, with symbolic
/// sizes as in the captured call, and caches the answer. Returns false if it cannot tell: for random draws, other
/// devices, sizes that depend on data. The graph must have its fakes.
STATOR_API bool raises_on_sight(const graph::Graph& graph, const graph::Node& node);

}  // namespace stator::backend
