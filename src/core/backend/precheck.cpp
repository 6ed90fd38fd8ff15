#include "core/backend/precheck.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/graph/aliasing.h"
#include "core/shapes/number_ops.h"

namespace stator::backend {
namespace {

/// Removes a leading check that inputs are distinct, which copies cannot tell; the positions of those inputs.
std::vector<uint32_t> take_distinct_check(graph::Graph& graph) {
  std::vector<uint32_t> positions;
  if (graph.nodes.empty() || graph.nodes.front().op != shapes::distinct_op()) return positions;
  for (const graph::Argument& argument : graph.nodes.front().args)
    graph::for_each_value(argument, [&](graph::ValueId id) {
      const auto found = std::find(graph.inputs.begin(), graph.inputs.end(), id);
      positions.push_back(static_cast<uint32_t>(found - graph.inputs.begin()));
    });
  graph.nodes.erase(graph.nodes.begin());
  for (graph::ValueInfo& value : graph.values)
    if (value.producer != UINT32_MAX) --value.producer;
  return positions;
}

/// Leaves only the first nodes, and no outputs.
void cut(graph::Graph& graph, size_t nodes) {
  graph.nodes.resize(nodes, graph.nodes.front());
  graph.outputs.clear();
  for (graph::Node& node : graph.nodes) node.range = 0;  // a profiler sees the run of the whole graph
  for (graph::ValueInfo& value : graph.values)
    if (value.producer >= nodes) value.producer = UINT32_MAX;
}

}  // namespace

Precheck::Precheck(EarlyPart part) {
  graph::Graph& graph = part.graph;
  cut(graph, part.nodes);
  distinct_ = take_distinct_check(graph);
  std::vector<bool> written(graph.inputs.size());
  const graph::Aliasing aliasing(graph);
  for (const graph::Node& node : graph.nodes)
    graph::for_each_written(node, [&](graph::ValueId id) {
      for (uint32_t input : aliasing.inputs_sharing(id)) written[input] = true;
    });
  const std::vector<graph::ValueId> all = graph.inputs;
  for (uint32_t position : graph.drop_unused_inputs())
    inputs_.push_back({position, written[position], graph::holds_number(graph.values[all[position]].type)});
  auto checked = std::make_shared<graph::Graph>(std::move(graph));
  executable_ = compile_reference(checked);
  checked->drop_fakes();
}

bool Precheck::passes(std::span<const at::Tensor> inputs) const {
  std::unordered_set<const void*> seen;
  for (uint32_t position : distinct_)
    if (const void* memory = graph::memory_of(inputs[position]); memory && !seen.insert(memory).second) return false;
  std::vector<at::Tensor> given;
  given.reserve(inputs_.size());
  for (const Input& input : inputs_) {
    at::Tensor copy = inputs[input.position].detach();
    if (input.written) copy = copy.clone();
    if (input.is_number) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    given.push_back(std::move(copy));
  }
  try {
    executable_->run(std::move(given));
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

std::unique_ptr<Precheck> make_precheck(const graph::Graph& graph) {
  std::optional<EarlyPart> part = early_part(graph);
  return part ? std::make_unique<Precheck>(std::move(*part)) : nullptr;
}

}  // namespace stator::backend
