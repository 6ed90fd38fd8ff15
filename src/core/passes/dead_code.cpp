#include <algorithm>
#include <unordered_set>

#include "core/graph/aliasing.h"
#include "core/graph/uses.h"
#include "core/passes/effects.h"
#include "core/passes/simplify.h"

namespace stator::passes {

using graph::ValueId;

namespace {

/// Goes through the nodes from the last to the first, and marks those that something depends on.
class Liveness {
 public:
  explicit Liveness(const graph::Graph& graph)
      : graph_(graph), groups_(graph), used_(graph.values.size()), live_(graph.nodes.size()) {
    for (ValueId id : graph.inputs) memory_.insert(groups_.of(id));
    for (ValueId id : graph.outputs) use(id);
    for (size_t n = graph.nodes.size(); n-- > 0;) visit(n);
  }
  const std::vector<bool>& live() const { return live_; }

 private:
  void use(ValueId id) {
    used_[id] = true;
    memory_.insert(groups_.of(id));
  }

  void visit(size_t n) {
    const graph::Node& node = graph_.nodes[n];
    bool is_live = has_effects(graph_, node);
    graph::for_each_result(node, [&](ValueId id) { is_live = is_live || used_[id]; });
    graph::for_each_written(node, [&](ValueId id) { is_live = is_live || memory_.contains(groups_.of(id)); });
    live_[n] = is_live;
    if (!is_live) return;
    for (const graph::Argument& argument : node.args) graph::for_each_value(argument, [&](ValueId id) { use(id); });
  }

  const graph::Graph& graph_;
  const graph::MemoryGroups groups_;
  std::vector<bool> used_;
  std::vector<bool> live_;
  std::unordered_set<uint32_t> memory_;  // groups that are read later
};

}  // namespace

size_t eliminate_dead_code(graph::Graph& graph) {
  change_sub_graphs(graph, [](graph::Graph& part) { eliminate_dead_code(part); });
  const std::vector<bool> live = Liveness(graph).live();
  keep_nodes(graph, live);
  return static_cast<size_t>(std::count(live.begin(), live.end(), false));
}

}  // namespace stator::passes
