#pragma once

#include <initializer_list>
#include <string>

#include "core/graph/graph.h"

/// Helpers that build graphs in tests.
namespace stator::testing {

inline graph::Argument v(graph::ValueId id) { return graph::Argument::of_value(id); }
inline graph::Argument c(c10::IValue value) { return graph::Argument::of_constant(std::move(value)); }
inline graph::Argument list(std::vector<graph::Argument> items) { return graph::Argument::of_list(std::move(items)); }

inline c10::OperatorHandle op(const std::string& name, const std::string& overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + name).c_str(), overload.c_str());
}

/// Appends a node with one fresh tensor result.
inline graph::ValueId call(graph::Graph& graph, c10::OperatorHandle handle, std::vector<graph::Argument> args,
                           uint32_t state = 0) {
  auto index = static_cast<uint32_t>(graph.nodes.size());
  auto& node = graph.add_node(handle);
  node.args = std::move(args);
  node.state = state;
  auto id = graph.add_result_value(index, {});
  node.results.push_back({false, {id}});
  return id;
}

/// Appends an in-place node that returns `self`.
inline void call_in_place(graph::Graph& graph, c10::OperatorHandle handle, std::vector<graph::Argument> args,
                          uint32_t state = 0) {
  auto& node = graph.add_node(handle);
  auto self = args[0].value;
  node.args = std::move(args);
  node.state = state;
  node.results.push_back({false, {self}});
}

}  // namespace stator::testing
