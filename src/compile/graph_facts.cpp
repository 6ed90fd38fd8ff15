#include "compile/graph_facts.h"

#include "core/graph/graph.h"

namespace stator {

size_t op_count(const graph::Graph& graph) { return graph.nodes.size(); }
void drop_fakes(graph::Graph& graph) { graph.drop_fakes(); }

}  // namespace stator
