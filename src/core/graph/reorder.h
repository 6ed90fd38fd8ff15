#pragma once

#include <cstdint>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// Moves the marked nodes to the front, with all nodes that they depend on: by value, by memory (reads and writes
/// of a storage), by random draws, and by nodes whose effects are unknown (Python calls, changes of metadata).
/// All others keep their order. Needs the fakes. Returns the old index of each node; empty if no node moved.
STATOR_API std::vector<uint32_t> move_to_front(Graph& graph, const std::vector<bool>& marked);

}  // namespace stator::graph
