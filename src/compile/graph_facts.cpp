#include "compile/graph_facts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_set>

#include "core/backend/rewind.h"
#include "core/graph/graph.h"
#include "core/graph/uses.h"

namespace stator {

size_t op_count(const graph::Graph& graph) { return graph.nodes.size(); }

namespace {

using Storages = std::unordered_set<const c10::StorageImpl*>;

const c10::StorageImpl* storage_of(const graph::Graph& graph, graph::ValueId value) {
  const at::Tensor& fake = graph.values[value].fake;
  return fake.defined() && fake.has_storage() ? fake.storage().unsafeGetStorageImpl() : nullptr;
}

/// Whether the node writes to memory that was there before the graph ran. What has no storage may be.
bool writes_outside(const graph::Graph& graph, const graph::Node& node, const Storages& outside) {
  bool found = false;
  graph::for_each_written(node, [&](graph::ValueId id) {
    const c10::StorageImpl* storage = storage_of(graph, id);
    found = found || !storage || outside.contains(storage);
  });
  return found;
}

}  // namespace

bool fails_after_writing(const graph::Graph& graph) {
  Storages outside;
  for (graph::ValueId input : graph.inputs) outside.insert(storage_of(graph, input));
  bool written = false;
  for (const graph::Node& node : graph.nodes) {
    const auto& name = node.op.operator_name().name;
    if (written && (name == "aten::_assert_async" || name == "stator::number")) return true;
    written = written || writes_outside(graph, node, outside);
  }
  return false;
}

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
