#pragma once

#include <cstdint>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// Moves the marked nodes to the front, with all that they depend on: by value, by memory (of what is read and written
/// there), by random draws, and by nodes that nobody knows enough of to pass them (Python calls, changes of metadata).
/// All others keep their order. Needs the fakes. Gives the earlier index of each node; nothing where no node moved.
STATOR_API std::vector<uint32_t> move_to_front(Graph& graph, const std::vector<bool>& marked);

}  // namespace stator::graph
