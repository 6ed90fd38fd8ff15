#include "compile/graph_facts.h"

#include "core/graph/graph.h"

namespace stator {

size_t op_count(const graph::Graph& graph) { return graph.nodes.size(); }
bool is_repeatable(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes)
    if (node.op.schema().is_mutable() || node.op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  return true;
}
void drop_fakes(graph::Graph& graph) { graph.drop_fakes(); }

}  // namespace stator
