#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/graph/aliasing.h"
#include "core/graph/control_ops.h"
#include "core/graph/defaults.h"
#include "core/graph/uses.h"
#include "core/passes/effects.h"
#include "core/passes/simplify.h"

namespace stator::passes {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

bool same_argument(const Argument& a, const Argument& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Argument::Kind::Value:
      return a.value == b.value;
    case Argument::Kind::Graph:
      return false;
    case Argument::Kind::List:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same_argument);
    case Argument::Kind::Constant:
      break;
  }
  if (a.constant.isTensor() && b.constant.isTensor()) return a.constant.toTensor().is_same(b.constant.toTensor());
  return graph::same_constant(a.constant, b.constant);
}

class Merger {
 public:
  explicit Merger(graph::Graph& graph)
      : graph_(graph), groups_(graph), renamed_(graph.values.size()), versions_(graph.values.size()) {
    for (ValueId id = 0; id < renamed_.size(); ++id) renamed_[id] = id;
    for (const graph::Node& node : graph.nodes)
      graph::for_each_written(node, [&](ValueId id) { written_.insert(groups_.of(id)); });
    for (ValueId id : graph.outputs) leaving_.insert(groups_.of(id));
  }

  size_t run() {
    std::vector<bool> kept(graph_.nodes.size(), true);
    for (uint32_t n = 0; n < kept.size(); ++n) kept[n] = !merge(n);
    for (ValueId& id : graph_.outputs) id = renamed_[id];
    keep_nodes(graph_, kept);
    return static_cast<size_t>(std::count(kept.begin(), kept.end(), false));
  }

 private:
  struct Seen {
    uint32_t node;
    std::vector<uint64_t> versions;  // of the memory of the operands
  };

  void rename(Argument& argument) {
    if (argument.kind == Argument::Kind::Value) argument.value = renamed_[argument.value];
    for (Argument& item : argument.items) rename(item);
  }

  bool may_merge(const graph::Node& node) const {
    if (graph::may_write(node.op) || has_effects(graph_, node) || graph::is_control_op(node.op)) return false;
    bool is_private = true;
    graph::for_each_result(node, [&](ValueId id) { is_private = is_private && !written_.contains(groups_.of(id)); });
    return is_private;
  }

  bool leaves(const graph::Node& node) const {
    bool found = false;
    graph::for_each_result(node, [&](ValueId id) { found = found || leaving_.contains(groups_.of(id)); });
    return found;
  }

  bool merge(uint32_t n) {
    graph::Node& node = graph_.nodes[n];
    for (Argument& argument : node.args) rename(argument);
    graph::for_each_written(node, [&](ValueId id) { ++versions_[groups_.of(id)]; });
    if (!may_merge(node)) return false;
    Seen seen{n, {}};
    size_t hash = std::hash<c10::OperatorName>()(node.op.operator_name());
    for (const Argument& argument : node.args)
      graph::for_each_value(argument, [&](ValueId id) {
        seen.versions.push_back(versions_[groups_.of(id)]);
        hash = hash * 31 + id;
      });
    auto& candidates = seen_[hash];
    if (!leaves(node))
      for (const Seen& earlier : candidates)
        if (is_same(graph_.nodes[earlier.node], node) && earlier.versions == seen.versions) {
          replace(graph_.nodes[earlier.node], node);
          return true;
        }
    candidates.push_back(std::move(seen));
    return false;
  }

  static bool is_same(const graph::Node& a, const graph::Node& b) {
    if (a.op != b.op || a.state != b.state || a.results.size() != b.results.size()) return false;
    if (!std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), same_argument)) return false;
    return std::equal(a.results.begin(), a.results.end(), b.results.begin(), [](const auto& x, const auto& y) {
      return x.values.size() == y.values.size() &&
             std::equal(x.values.begin(), x.values.end(), y.values.begin(),
                        [](ValueId i, ValueId k) { return (i == kNoValue) == (k == kNoValue); });
    });
  }

  void replace(const graph::Node& by, const graph::Node& node) {
    for (size_t r = 0; r < node.results.size(); ++r)
      for (size_t i = 0; i < node.results[r].values.size(); ++i)
        if (node.results[r].values[i] != kNoValue) renamed_[node.results[r].values[i]] = by.results[r].values[i];
  }

  graph::Graph& graph_;
  const graph::MemoryGroups groups_;
  std::vector<ValueId> renamed_;
  std::vector<uint64_t> versions_;  // by group: writes so far
  std::unordered_set<uint32_t> written_, leaving_;
  std::unordered_map<size_t, std::vector<Seen>> seen_;
};

}  // namespace

size_t merge_common_subexpressions(graph::Graph& graph) {
  change_sub_graphs(graph, [](graph::Graph& part) { merge_common_subexpressions(part); });
  return Merger(graph).run();
}

}  // namespace stator::passes
