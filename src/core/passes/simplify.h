#pragma once

#include <cstdint>
#include <string>

#include "core/base/export.h"
#include "core/graph/graph.h"

/// Passes that change a graph in place, and its sub-graphs. Each returns the number of nodes it removed. A run of the
/// graph before and after gives the same results, writes, random numbers and exceptions.
namespace stator::passes {

/// Removes nodes that no output, write to an input, random draw, assert or possible exception depends on. A write to
/// memory that nothing reads afterwards is removed as well.
STATOR_API size_t eliminate_dead_code(graph::Graph& graph);

/// Merges nodes that compute the same value. Not merged: nodes that draw random numbers or have side effects, reads
/// with a write to the same memory between them, results that are written to later, and outputs of the graph that must
/// be distinct tensors.
STATOR_API size_t merge_common_subexpressions(graph::Graph& graph);

/// Nodes whose operands are all constants are computed now. Their results become constants of the graph if they have at
/// most `max_elements` elements, are on the CPU, and are neither written to nor outputs.
inline constexpr int64_t kMaxFoldedElements = 1024;
STATOR_API size_t fold_constants(graph::Graph& graph, int64_t max_elements = kMaxFoldedElements);

/// The first difference between two graphs as text, empty if they are equal: operators, operands, metadata and states
/// in the same order. Names, locations and profiler ranges do not count, nor which symbols sizes are named by.
STATOR_API std::string find_difference(const graph::Graph& a, const graph::Graph& b);

}  // namespace stator::passes
