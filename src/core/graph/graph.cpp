#include "core/graph/graph.h"

#include <algorithm>

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

ValueId Graph::add_input(std::string name, at::Tensor fake) {
  auto id = static_cast<ValueId>(values.size());
  values.push_back({std::move(name), std::move(fake), UINT32_MAX, nullptr});
  inputs.push_back(id);
  return id;
}

Node& Graph::add_node(c10::OperatorHandle op) { return nodes.emplace_back(Node{op, {}, {}, 0, 0}); }

ValueId Graph::add_result_value(uint32_t node, at::Tensor fake) {
  STATOR_CHECK(node < nodes.size(), "no node ", node);
  auto id = static_cast<ValueId>(values.size());
  values.push_back({{}, std::move(fake), node, nullptr});
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

std::shared_ptr<const TensorMeta> meta_of(const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return nullptr;
  bool strided = tensor.layout() == at::kStrided;
  return std::make_shared<const TensorMeta>(TensorMeta{tensor.scalar_type(), tensor.device(), tensor.sizes().vec(),
                                                       strided ? tensor.strides().vec() : std::vector<int64_t>{},
                                                       tensor.requires_grad()});
}

std::shared_ptr<const TensorMeta> Graph::meta(ValueId value) const {
  const auto& info = values.at(value);
  auto fresh = info.fake.defined() ? meta_of(info.fake) : nullptr;
  return fresh ? fresh : info.meta;
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

void Graph::drop_fakes() {
  for (auto& value : values) value.fake.reset();
}

}  // namespace stator::graph
