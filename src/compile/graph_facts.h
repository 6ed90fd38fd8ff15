#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stator::graph {
class Graph;
}

namespace stator {

/// Questions about a graph. They stand apart so that those who ask need none of torch's headers.

size_t op_count(const graph::Graph& graph);
/// See `graph::to_text`.
std::string graph_text(const graph::Graph& graph);
/// Whether the graph verifies an assumption after an unrecoverable write.
bool fails_after_writing(const graph::Graph& graph);
/// Moves checks of data before the writes; see `backend::check_early`.
std::vector<uint32_t> check_early(graph::Graph& graph);
/// The first fallible node after an unrecoverable write, and the node that writes; the same node if it may raise after
/// a partial write of its own. Both past the last node: there is none. A backend that does not keep the order of nodes
/// may write before a fallible node that comes first: then `node` is the one that writes, `effect` the fallible one.
struct Hazard {
  uint32_t node, effect;
};
Hazard hazard_of(const graph::Graph& graph, bool keeps_order);
/// A graph input to which autograd follows a write, and the first node that writes to it. Indices.
struct FollowedWrite {
  uint32_t input, node;
};
std::vector<FollowedWrite> followed_writes(const graph::Graph& graph);
void drop_fakes(graph::Graph& graph);

}  // namespace stator
