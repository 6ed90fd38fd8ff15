#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stator::graph {
class Graph;
}

namespace stator {

/// What the pipeline asks of a graph, kept apart so that it needs none of torch's headers.
size_t op_count(const graph::Graph& graph);
/// Whether an assumption about data is checked after the graph has written to something that it was given.
bool fails_after_writing(const graph::Graph& graph);
/// See `backend::check_early`.
std::vector<uint32_t> check_early(graph::Graph& graph);
/// A node that may raise for its data where there is no way back, and the effect that has been by then (the node
/// itself: its own). Node indices; past the last: there is none.
struct Hazard {
  uint32_t node, effect;
};
Hazard hazard_of(const graph::Graph& graph);
/// An input to which autograd follows a write, and the first node that writes there. Indices.
struct FollowedWrite {
  uint32_t input, node;
};
std::vector<FollowedWrite> followed_writes(const graph::Graph& graph);
void drop_fakes(graph::Graph& graph);

}  // namespace stator
