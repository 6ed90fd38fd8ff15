#include "core/graph/graph.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/graph/uses.h"

namespace stator::graph {

Argument Argument::of_value(ValueId v) {
  Argument argument;
  argument.kind = Kind::Value;
  argument.value = v;
  return argument;
}

Argument Argument::of_constant(c10::IValue v) {
  Argument argument;
  argument.constant = std::move(v);
  return argument;
}

Argument Argument::of_list(std::vector<Argument> items) {
  Argument argument;
  argument.kind = Kind::List;
  argument.items = std::move(items);
  return argument;
}

namespace {

/// A sub-graph in the form in which an IValue can hold it.
struct HeldGraph final : torch::CustomClassHolder {
  explicit HeldGraph(std::shared_ptr<Graph> held) : graph(std::move(held)) {}
  std::shared_ptr<Graph> graph;
};

}  // namespace

Argument Argument::of_graph(std::shared_ptr<Graph> graph) {
  Argument argument;
  argument.kind = Kind::Graph;
  argument.constant = c10::IValue::make_capsule(c10::make_intrusive<HeldGraph>(std::move(graph)));
  return argument;
}

const std::shared_ptr<Graph>& Argument::graph() const {
  STATOR_CHECK(kind == Kind::Graph, "the argument is not a sub-graph");
  return static_cast<const HeldGraph*>(constant.toCapsule().get())->graph;
}

ValueId Graph::add_input(std::string name, at::Tensor fake) {
  auto id = static_cast<ValueId>(values.size());
  ValueInfo& info = values.emplace_back();
  info.name = std::move(name);
  info.fake = std::move(fake);
  if (info.fake.defined()) info.definition = definitions.add(id, info.fake);
  inputs.push_back(id);
  return id;
}

Node& Graph::add_node(c10::OperatorHandle op) { return nodes.emplace_back(Node{op, {}, {}}); }

ValueId Graph::add_result_value(uint32_t node, at::Tensor fake) {
  STATOR_CHECK(node < nodes.size(), "no node ", node);
  auto id = static_cast<ValueId>(values.size());
  ValueInfo& info = values.emplace_back();
  info.fake = std::move(fake);
  info.producer = node;
  if (info.fake.defined()) define(node, id, info.fake);
  return id;
}

uint32_t Graph::intern_state(const ExecState& state) {
  auto found = std::find(states.begin(), states.end(), state);
  if (found == states.end()) found = states.insert(found, state);
  return static_cast<uint32_t>(found - states.begin());
}

uint32_t Graph::add_location(Location location) {
  STATOR_CHECK(location.caller < locations.size(), "caller ", location.caller, " is not a location");
  locations.push_back(std::move(location));
  return static_cast<uint32_t>(locations.size() - 1);
}

std::vector<Location> Graph::call_chain(uint32_t location) const {
  std::vector<Location> chain;
  // Callers have smaller indices, so this ends.
  for (; location != 0; location = locations.at(location).caller) chain.push_back(locations.at(location));
  std::reverse(chain.begin(), chain.end());
  return chain;
}

DefinitionId Graph::define(uint32_t node, ValueId value, const at::Tensor& tensor) {
  return own_definition(node, value, definitions.add(value, tensor));
}

DefinitionId Graph::define(uint32_t node, ValueId value, const TensorMeta& meta) {
  return own_definition(node, value, definitions.add(value, meta));
}

DefinitionId Graph::own_definition(uint32_t node, ValueId value, DefinitionId id) {
  Node& owner = nodes[node];
  if (owner.num_definitions == 0) owner.first_definition = id;
  STATOR_CHECK(owner.first_definition + owner.num_definitions == id, "definitions of a node that is not the newest");
  ++owner.num_definitions;
  if (values[value].definition == kNoDefinition) values[value].definition = id;
  return id;
}

DefinitionId Graph::definition_of(uint32_t node, ValueId value) const {
  const Node& owner = nodes.at(node);
  for (uint32_t i = 0; i < owner.num_definitions; ++i)
    if (definitions.value_of(owner.first_definition + i) == value) return owner.first_definition + i;
  return kNoDefinition;
}

std::vector<uint32_t> Graph::drop_unused_inputs() {
  std::vector<bool> used(inputs.size(), false);
  auto look_at = [&](const Graph& list) {
    auto last = last_uses(list);
    for (size_t i = 0; i < used.size(); ++i) used[i] = used[i] || last[list.inputs[i]] != kNever;
  };
  look_at(*this);
  if (below) look_at(*below);
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < used.size(); ++i) {
    if (used[i]) kept.push_back(i);
  }
  auto select = [&](Graph& list) {
    std::vector<ValueId> left;
    for (uint32_t i : kept) left.push_back(list.inputs[i]);
    list.inputs = std::move(left);
  };
  select(*this);
  if (below) select(*below);
  return kept;
}

void Graph::arrange_inputs(const std::vector<uint32_t>& order) {
  const std::vector<ValueId> before = std::exchange(inputs, {});
  for (uint32_t position : order) {
    if (position == kNoInput)
      add_input("unused", {});
    else
      inputs.push_back(before.at(position));
  }
}

void Graph::drop_fakes() {
  for (auto& value : values) value.fake.reset();
}

}  // namespace stator::graph
