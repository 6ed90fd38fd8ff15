#pragma once

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// Whether the node raises on tensors as it will get them, whatever their data: kernels know dtypes that they refuse
/// and memory that overlaps, which no shape function does. Runs it, on zeros of the same dtypes and layouts; answers
/// are kept. False also where that cannot be told: random draws, other devices, sizes that depend on data. The graph
/// must have its fakes.
STATOR_API bool raises_on_sight(const graph::Graph& graph, const graph::Node& node);

}  // namespace stator::backend
