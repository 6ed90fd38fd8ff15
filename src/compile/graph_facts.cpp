#include "compile/graph_facts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "core/backend/early_checks.h"
#include "core/backend/rewind.h"
#include "core/graph/graph.h"
#include "core/graph/uses.h"

namespace stator {

size_t op_count(const graph::Graph& graph) { return graph.nodes.size(); }

bool fails_after_writing(const graph::Graph& graph) { return backend::Rewind(graph).checks_late(); }

std::vector<uint32_t> check_early(graph::Graph& graph) { return backend::check_early(graph); }

Hazard hazard_of(const graph::Graph& graph) {
  backend::Rewind::Hazard found = backend::Rewind(graph).hazard();
  return {found.node, found.effect};
}

std::vector<FollowedWrite> followed_writes(const graph::Graph& graph) {
  std::vector<FollowedWrite> found;
  auto add = [&](const at::Tensor& target, uint32_t node) {
    if (!target.requires_grad()) return;
    for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
      const at::Tensor& input = graph.values[graph.inputs[i]].fake;
      bool is_known = std::any_of(found.begin(), found.end(), [&](const auto& write) { return write.input == i; });
      if (!is_known && graph::share_storage(input, target)) found.push_back({i, node});
    }
  };
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    if (!graph.states[node.state].grad_mode) continue;
    graph::for_each_written(node, [&](graph::ValueId id) { add(graph.values[id].fake, n); });
  }
  return found;
}

void drop_fakes(graph::Graph& graph) { graph.drop_fakes(); }

}  // namespace stator
