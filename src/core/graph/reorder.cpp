#include "core/graph/reorder.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "core/graph/uses.h"

namespace stator::graph {
namespace {

/// Which nodes a node must come after.
class Dependencies {
 public:
  explicit Dependencies(const Graph& graph) : graph_(graph), of_(graph.nodes.size()) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) add(n);
  }
  const std::vector<uint32_t>& of(uint32_t node) const { return of_[node]; }

 private:
  struct Place {
    uint32_t writer = kNever;
    std::vector<uint32_t> readers;  // since then
  };

  void add(uint32_t n) {
    const Node& node = graph_.nodes[n];
    bool is_barrier = !is_transparent(node);
    std::vector<const void*> read, written;
    auto storage_of = [&](ValueId id) -> const void* {
      const at::Tensor& fake = graph_.values[id].fake;
      if (fake.defined() && fake.has_storage()) return fake.storage().unsafeGetStorageImpl();
      is_barrier = true;
      return nullptr;
    };
    for (const Argument& argument : node.args)
      for_each_value(argument, [&](ValueId id) {
        if (graph_.values[id].producer != UINT32_MAX) depend(n, graph_.values[id].producer);
        read.push_back(storage_of(id));
      });
    for_each_written(node, [&](ValueId id) { written.push_back(storage_of(id)); });
    if (node.op.hasTag(at::Tag::nondeterministic_seeded)) written.push_back(&random_);
    for (const void* place : written) writes(n, places_[place]);
    for (const void* place : read) reads(n, places_[place]);
    if (is_barrier)
      writes(n, world_);
    else
      reads(n, world_);
  }

  static bool is_transparent(const Node& node) {
    const std::string_view name = node.op.operator_name().name;
    const bool is_number = name.starts_with("stator::") && !name.starts_with("stator::call");
    return is_number || (name.starts_with("aten::") && !name.starts_with("aten::set_") &&
                         !name.starts_with("aten::resize") && !node.op.hasTag(at::Tag::inplace_view));
  }

  void depend(uint32_t node, uint32_t on) {
    if (on != kNever && on != node) of_[node].push_back(on);
  }
  void reads(uint32_t node, Place& place) {
    depend(node, place.writer);
    place.readers.push_back(node);
  }
  void writes(uint32_t node, Place& place) {
    depend(node, place.writer);
    for (uint32_t reader : place.readers) depend(node, reader);
    place.readers.clear();
    place.writer = node;
  }

  const Graph& graph_;
  std::vector<std::vector<uint32_t>> of_;
  std::unordered_map<const void*, Place> places_;  // by storage
  Place world_;
  char random_ = 0;  // stands for the generators
};

}  // namespace

std::vector<uint32_t> move_to_front(Graph& graph, const std::vector<bool>& marked) {
  // Below autograd the nodes are others; and what autocast keeps depends on who asked first.
  if (graph.below) return {};
  for (const ExecState& state : graph.states)
    if (!state.autocast.empty()) return {};
  const auto count = static_cast<uint32_t>(graph.nodes.size());
  const Dependencies dependencies(graph);
  std::vector<bool> early = marked;
  for (uint32_t n = count; n-- > 0;)
    if (early[n])
      for (uint32_t on : dependencies.of(n)) early[on] = true;

  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  auto later = std::stable_partition(order.begin(), order.end(), [&](uint32_t n) { return early[n]; });
  if (std::is_sorted(order.begin(), order.end()) || later == order.begin()) return {};
  std::vector<Node> nodes;
  std::vector<uint32_t> position(count);
  nodes.reserve(count);
  for (uint32_t n : order) {
    position[n] = static_cast<uint32_t>(nodes.size());
    nodes.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(nodes);
  for (ValueInfo& value : graph.values)
    if (value.producer != UINT32_MAX) value.producer = position[value.producer];
  return order;
}

}  // namespace stator::graph
