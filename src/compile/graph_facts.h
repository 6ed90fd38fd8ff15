#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stator::graph {
class Graph;
}

namespace stator {

/// Questions about a graph, kept in this header so that callers need not include torch.

size_t op_count(const graph::Graph& graph);
/// See `graph::to_text`.
std::string graph_text(const graph::Graph& graph);
/// The first fallible node after an unrecoverable write, and the node that writes; the same node if it may raise after
/// a partial write of its own. Both past the last node: there is none.
struct Hazard {
  uint32_t node, effect;
};
/// What a run of the graph may do if an operator raises.
struct RunFacts {
  std::vector<uint32_t> order;  // the program's position of each node, if checks of data were moved; else empty
  bool verifies_late = false;   // the graph verifies an assumption after an unrecoverable write
  /// The same for a backend that does not keep the order of nodes: the graph does both.
  bool verifies_unordered = false;
  Hazard hazard{};
  /// The same for a backend that does not keep the order of nodes, which may write before a fallible node that comes
  /// first: then `node` is the one that writes, `effect` the fallible one.
  Hazard unordered_hazard{};
  bool is_checked_early = false;
};
/// What a run of the graph by a Python backend does. Computations that may fail and can run before the graph does count
/// as checked: then `is_checked_early` is set, and indices of nodes are to be mapped by `order`.
RunFacts examine_python_run(const graph::Graph& graph);
/// `moves_checks`: moves checks of data before the writes first; see `backend::check_early`.
RunFacts examine_run(graph::Graph& graph, bool moves_checks);
/// A graph input to which autograd follows a write, and the first node that writes to it. Indices.
struct FollowedWrite {
  uint32_t input, node;
};
std::vector<FollowedWrite> followed_writes(const graph::Graph& graph);
/// Whether a write raises whatever the data, such as one of floats to a tensor of ints. Compilers that make writes from
/// operators without writes do not notice.
bool has_refused_write(const graph::Graph& graph);
/// Whether a tensor that the graph makes begins to require gradients. A Python backend gets a further input for each.
bool makes_leaves(const graph::Graph& graph);
/// Whether it cannot get them: one lies in a sub-graph, or the graph returns a view of one, to which compilers give a
/// gradient of its own that does not reach the leaf.
bool hides_leaves(const graph::Graph& graph);
/// Adds outputs that nothing reads, so that no backend deletes an operator which may raise (backend/kept_failures).
void keep_failures(graph::Graph& graph);
void drop_fakes(graph::Graph& graph);

}  // namespace stator
