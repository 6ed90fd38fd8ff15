// The writes of recorded nodes.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "capture/interpreter/state/tracer_impl.h"
#include "core/graph/aliasing.h"

namespace stator::capture {
namespace {

/// Whether the operator changes metadata of the tensor object, besides its data.
bool changes_facts(const graph::Node& node) {
  const std::string_view name = node.op.operator_name().name;
  return graph::changes_metadata(node) || name == "aten::requires_grad_" || name == "aten::detach_";
}

const void* storage_of(const graph::Graph& graph, graph::ValueId id) {
  const at::Tensor& fake = graph.values[id].fake;
  return fake.has_storage() ? fake.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

std::vector<InputWrite> TorchTracer::input_writes() const {
  const graph::Graph& graph = impl_->tracer.graph();
  std::vector<InputWrite> writes(graph.inputs.size(), InputWrite::None);
  std::unordered_map<graph::ValueId, size_t> numbers;
  std::unordered_multimap<const void*, size_t> by_storage;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    numbers.emplace(graph.inputs[i], i);
    by_storage.emplace(storage_of(graph, graph.inputs[i]), i);
  }
  auto note = [&](size_t input, InputWrite kind) { writes[input] = std::max(writes[input], kind); };
  for (const graph::Node& node : graph.nodes)
    graph::for_each_written(node, [&](graph::ValueId id) {
      const bool is_followed = graph.states[node.state].grad_mode && graph.values[id].fake.requires_grad();
      const InputWrite kind = changes_facts(node) ? InputWrite::Facts
                              : is_followed       ? InputWrite::Followed
                                                  : InputWrite::Data;
      if (auto input = numbers.find(id); input != numbers.end()) note(input->second, kind);
      auto [first, last] = by_storage.equal_range(storage_of(graph, id));
      if (kind != InputWrite::Facts) std::for_each(first, last, [&](auto& input) { note(input.second, kind); });
    });
  return writes;
}

}  // namespace stator::capture
