#include "core/passes/effects.h"

#include <algorithm>
#include <string_view>

#include "core/graph/aliasing.h"
#include "core/graph/control_ops.h"
#include "core/graph/uses.h"
#include "core/ops/operator_table.h"
#include "core/shapes/number_ops.h"

namespace stator::passes {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

bool gives_integers(const graph::Graph& graph, const graph::Node& node) {
  bool found = false;
  graph::for_each_result(node, [&](ValueId id) {
    const auto definition = graph.values[id].definition;
    found = found || definition == graph::kNoDefinition ||
            at::isIntegralType(graph.definitions.meta(definition).dtype, /*includeBool=*/true);
  });
  return found;
}

bool may_raise(const graph::Graph& graph, const graph::Node& node) {
  const auto traits = ops::traits_of(node.op);
  return (traits & ops::Fallible) != 0 || ((traits & ops::FallibleOnIntegers) != 0 && gives_integers(graph, node));
}

}  // namespace

bool has_effects(const graph::Graph& graph, const graph::Node& node) {
  const std::string_view name = node.op.operator_name().name;
  if (graph::draws_random(node) || node.op.schema().returns().empty()) return true;
  if (graph::is_control_op(node.op)) {
    return std::any_of(node.args.begin(), node.args.end(), [](const Argument& argument) {
      if (argument.kind != Argument::Kind::Graph) return false;
      const graph::Graph& part = *argument.graph();
      return std::any_of(part.nodes.begin(), part.nodes.end(),
                         [&](const graph::Node& inner) { return has_effects(part, inner); });
    });
  }
  if (shapes::is_number_op(node.op)) return false;
  if (!name.starts_with("aten::") && !name.starts_with("prims::")) return true;
  return name.find("assert") != std::string_view::npos || name.find("_sync") != std::string_view::npos ||
         may_raise(graph, node);
}

void keep_nodes(graph::Graph& graph, const std::vector<bool>& kept) {
  std::vector<graph::Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    graph::Node& node = graph.nodes[n];
    const auto index = static_cast<uint32_t>(nodes.size());
    graph::for_each_result(node, [&](ValueId id) {
      graph::ValueInfo& info = graph.values[id];
      if (info.producer != n) return;
      if (kept[n])
        info.producer = index;
      else
        info = {};
    });
    if (kept[n]) nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace stator::passes
