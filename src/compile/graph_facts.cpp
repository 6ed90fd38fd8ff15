#include "compile/graph_facts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "core/backend/early_checks.h"
#include "core/backend/undo_log.h"
#include "core/graph/aliasing.h"
#include "core/graph/graph.h"
#include "core/graph/text.h"

namespace stator {

size_t op_count(const graph::Graph& graph) { return graph.nodes.size(); }

std::string graph_text(const graph::Graph& graph) { return graph::to_text(graph); }

bool fails_after_writing(const graph::Graph& graph) { return backend::UndoLog(graph).checks_late(); }

std::vector<uint32_t> check_early(graph::Graph& graph) { return backend::check_early(graph); }

Hazard hazard_of(const graph::Graph& graph, bool keeps_order) {
  const backend::UndoLog log(graph);
  const backend::UndoLog::Hazard late = log.hazard(), early = log.early_hazard();
  if (!keeps_order && early.node < late.node) return {early.node, early.effect};
  return {late.node, late.effect};
}

std::vector<FollowedWrite> followed_writes(const graph::Graph& graph) {
  std::vector<FollowedWrite> found;
  const graph::Aliasing aliasing(graph);
  auto add = [&](graph::ValueId target, uint32_t node) {
    if (!graph.values[target].fake.requires_grad()) return;
    for (uint32_t i : aliasing.inputs_sharing(target)) {
      bool is_known = std::any_of(found.begin(), found.end(), [&](const auto& write) { return write.input == i; });
      if (!is_known) found.push_back({i, node});
    }
  };
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    if (!graph.states[node.state].grad_mode) continue;
    graph::for_each_written(node, [&](graph::ValueId id) { add(id, n); });
  }
  return found;
}

void drop_fakes(graph::Graph& graph) { graph.drop_fakes(); }

}  // namespace stator
