#include "core/graph/names.h"

#include <unordered_map>
#include <unordered_set>

namespace stator::graph {
namespace {

std::string base_name(const Graph& graph, const ValueInfo& value) {
  if (!value.name.empty()) return value.name;
  if (value.producer >= graph.nodes.size()) return "value";
  const auto& name = graph.nodes[value.producer].op.operator_name().name;
  auto start = name.rfind(':');
  auto base = name.substr(start == std::string::npos ? 0 : start + 1);
  while (base.size() > 1 && base.back() == '_') base.pop_back();
  return base;
}

}  // namespace

std::vector<std::string> value_names(const Graph& graph) {
  std::vector<std::string> names(graph.values.size());
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, int> next;  // the first number worth trying, by base name
  auto give = [&](size_t i) {
    auto base = base_name(graph, graph.values[i]);
    names[i] = base;
    auto& number = next[base];
    while (!taken.insert(names[i]).second) {
      names[i] = base;
      names[i].append("_").append(std::to_string(++number));
    }
  };
  // Assign given names first: a derived name never replaces one.
  for (size_t i = 0; i < names.size(); ++i) {
    if (!graph.values[i].name.empty()) give(i);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (graph.values[i].name.empty()) give(i);
  }
  return names;
}

}  // namespace stator::graph
