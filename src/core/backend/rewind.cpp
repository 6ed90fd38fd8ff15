#include "core/backend/rewind.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstring>

namespace stator::backend {
namespace {

constexpr size_t kMostBytes = 64 * 1024;

const c10::StorageImpl* storage_of(const at::Tensor& fake) {
  return fake.has_storage() ? fake.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

Rewind::Rewind(const graph::Graph& graph) {
  auto count = static_cast<uint32_t>(graph.nodes.size());
  first_effect_ = point_of_no_return_ = count;
  for (uint32_t i = 0; i < count; ++i) look_at(graph, i);
  // An effect that nothing comes after needs no way back.
  saves_ = first_effect_ + 1 < count && first_effect_ < point_of_no_return_;
}

void Rewind::look_at(const graph::Graph& graph, uint32_t index) {
  const graph::Node& node = graph.nodes[index];
  const auto& schema = node.op.schema();
  if (node.op.hasTag(at::Tag::nondeterministic_seeded)) {
    first_effect_ = std::min(first_effect_, index);
    random_ = true;
    auto own_generator = [](const graph::Argument& a) {
      return a.kind == graph::Argument::Kind::Constant && a.constant.isGenerator();
    };
    bool elsewhere = std::any_of(node.args.begin(), node.args.end(), own_generator);
    for (const auto& result : node.results)
      for (graph::ValueId value : result.values) elsewhere |= !graph.values[value].fake.device().is_cpu();
    if (elsewhere) point_of_no_return_ = std::min(point_of_no_return_, index);
  }
  for (size_t i = 0; schema.is_mutable() && i < node.args.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) writes(graph, node.args[i], index);
  }
}

void Rewind::writes(const graph::Graph& graph, const graph::Argument& argument, uint32_t index) {
  for (const auto& item : argument.items) writes(graph, item, index);
  if (argument.kind != graph::Argument::Kind::Value) return;
  const at::Tensor& target = graph.values[argument.value].fake;
  bool outside = false, undone = !graph.nodes[index].op.hasTag(at::Tag::inplace_view);
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const at::Tensor& input = graph.values[graph.inputs[i]].fake;
    if (storage_of(input) != storage_of(target)) continue;
    outside = true;
    // What autograd knows of a tensor cannot be put back.
    undone &= !input.requires_grad() && input.device().is_cpu();
    if (std::find(written_.begin(), written_.end(), i) == written_.end()) written_.push_back(i);
  }
  if (!outside) return;
  first_effect_ = std::min(first_effect_, index);
  if (!undone) point_of_no_return_ = std::min(point_of_no_return_, index);
}

Rewind::Saved Rewind::save(const std::vector<at::Tensor>& inputs) const {
  Saved saved;
  if (!saves_) return saved;
  size_t bytes = 0;
  for (uint32_t input : written_) {
    const c10::Storage& storage = inputs[input].storage();
    bytes += storage.nbytes();
    if (bytes > kMostBytes) return {};
    // All of the storage: views may reach beyond an input that is itself a part.
    const auto* data = static_cast<const char*>(storage.data());
    saved.storages.push_back({storage, std::string(data, storage.nbytes())});
  }
  if (random_) {
    auto generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    saved.random_state = generator.get_state();
  }
  saved.is_whole = true;
  return saved;
}

bool Rewind::restore(const Saved& saved, uint32_t failed_node) const {
  // The node that raised did nothing itself.
  if (failed_node <= first_effect_) return true;
  if (failed_node > point_of_no_return_ || !saved.is_whole) return false;
  for (auto& [storage, bytes] : saved.storages) {
    if (storage.nbytes() != bytes.size()) return false;
    std::memcpy(storage.mutable_data(), bytes.data(), bytes.size());
  }
  if (saved.random_state.defined()) {
    auto generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(saved.random_state);
  }
  return true;
}

}  // namespace stator::backend
