#include "compile/graph_facts.h"

#include "core/backend/rewind.h"
#include "core/graph/graph.h"

namespace stator {

size_t op_count(const graph::Graph& graph) { return graph.nodes.size(); }
bool fails_after_writing(const graph::Graph& graph) {
  bool written = false;
  for (const graph::Node& node : graph.nodes) {
    const auto& name = node.op.operator_name().name;
    if (name == "aten::_assert_async" || name == "stator::number") {
      if (written) return true;
    } else {
      written |= node.op.schema().is_mutable();
    }
  }
  return false;
}
Hazard hazard_of(const graph::Graph& graph) {
  backend::Rewind::Hazard found = backend::Rewind(graph).hazard();
  return {found.node, found.effect};
}
void drop_fakes(graph::Graph& graph) { graph.drop_fakes(); }

}  // namespace stator
