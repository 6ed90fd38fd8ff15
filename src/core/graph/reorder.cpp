#include "core/graph/reorder.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "core/graph/aliasing.h"
#include "core/shapes/number_ops.h"

namespace stator::graph {
namespace {

/// Computes the nodes that must precede a node.
class Dependencies {
 public:
  explicit Dependencies(const Graph& graph) : graph_(graph), aliasing_(graph), of_(graph.nodes.size()) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) add(n);
  }
  const std::vector<uint32_t>& of(uint32_t node) const { return of_[node]; }

 private:
  struct Place {
    uint32_t writer = kNever;
    std::vector<uint32_t> readers;  // since the last write
  };

  void add(uint32_t n) {
    const Node& node = graph_.nodes[n];
    bool is_barrier = !is_transparent(node);
    std::vector<const void*> read, written;
    auto storage_of = [&](ValueId id) -> const void* {
      const void* memory = aliasing_.memory_of(id);
      is_barrier = is_barrier || memory == nullptr;
      return memory;
    };
    for (const Argument& argument : node.args)
      for_each_value(argument, [&](ValueId id) {
        if (graph_.values[id].producer != UINT32_MAX) depend(n, graph_.values[id].producer);
        read.push_back(storage_of(id));
      });
    for_each_written(node, [&](ValueId id) { written.push_back(storage_of(id)); });
    if (draws_random(node)) written.push_back(&random_);
    for (const void* place : written) writes(n, places_[place]);
    for (const void* place : read) reads(n, places_[place]);
    if (is_barrier)
      writes(n, world_);
    else
      reads(n, world_);
  }

  static bool is_transparent(const Node& node) {
    const std::string_view name = node.op.operator_name().name;
    return shapes::is_number_op(node.op) || (name.starts_with("aten::") && !changes_metadata(node));
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
  const Aliasing aliasing_;
  std::vector<std::vector<uint32_t>> of_;
  std::unordered_map<const void*, Place> places_;  // by storage
  Place world_;
  char random_ = 0;  // its address represents the random generators
};

}  // namespace

std::vector<uint32_t> move_to_front(Graph& graph, const std::vector<bool>& marked) {
  // The list below autograd has other nodes, and autocast's cache depends on the order of casts.
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
