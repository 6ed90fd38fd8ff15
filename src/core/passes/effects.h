#pragma once

#include "core/graph/graph.h"

namespace stator::passes {

/// Whether a run may notice that the node is missing, or ran more or less often, although nothing uses its results and
/// nothing reads what it writes: it draws random numbers, asserts, may raise depending on data, runs Python code, or is
/// an operator whose effects are not known.
bool has_effects(const graph::Graph& graph, const graph::Node& node);

/// Copies of the sub-graphs of all nodes, each changed by `change(Graph&)`.
template <class Change>
void change_sub_graphs(graph::Graph& graph, const Change& change) {
  for (graph::Node& node : graph.nodes)
    for (graph::Argument& argument : node.args) {
      if (argument.kind != graph::Argument::Kind::Graph) continue;
      auto copy = std::make_shared<graph::Graph>(*argument.graph());
      change(*copy);
      argument = graph::Argument::of_graph(std::move(copy));
    }
}

/// Removes the nodes that are not marked. Values that they made must not be used any more.
void keep_nodes(graph::Graph& graph, const std::vector<bool>& kept);

}  // namespace stator::passes
