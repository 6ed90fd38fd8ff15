#pragma once

#include "core/base/export.h"
#include "core/graph/graph.h"

/// Which elements of memory the values of a graph share.
namespace stator::graph {

/// Whether a write of the graph may be seen through another value in a way that compilers which compute first and write
/// later do not reproduce. They take elements of one tensor, operands of one node, and overlapping inputs for
/// independent, and don't follow a tensor that gets other data while one of its memories is written. Reads the graph's
/// fakes.
STATOR_API bool writes_to_overlaps(const Graph& graph);

}  // namespace stator::graph
