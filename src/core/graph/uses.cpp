#include "core/graph/uses.h"

namespace stator::graph {

Uses::Uses(const Graph& graph) : starts_(graph.values.size() + 1, 0) {
  auto for_each_use = [&](const auto& visit) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      for (const auto& arg : graph.nodes[n].args) for_each_value(arg, [&](ValueId id) { visit(id, n); });
    }
  };
  for_each_use([&](ValueId id, uint32_t) { ++starts_[id + 1]; });
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  nodes_.resize(starts_.back());
  auto next = starts_;
  for_each_use([&](ValueId id, uint32_t n) { nodes_[next[id]++] = n; });
}

std::vector<uint32_t> last_uses(const Graph& graph) {
  std::vector<uint32_t> last(graph.values.size(), kNever);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    for (const auto& arg : node.args) for_each_value(arg, [&](ValueId id) { last[id] = n; });
    for_each_result(node, [&](ValueId id) {
      if (graph.values[id].producer != n) last[id] = n;
    });
  }
  for (ValueId id : graph.outputs) last[id] = static_cast<uint32_t>(graph.nodes.size());
  return last;
}

}  // namespace stator::graph
