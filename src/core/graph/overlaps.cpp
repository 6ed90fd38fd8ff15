#include "core/graph/overlaps.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "core/graph/aliasing.h"
#include "core/shapes/sym_node.h"

namespace stator::graph {
namespace {

/// The elements of a fake at the sizes of the captured call, in bytes of its storage.
struct Elements {
  int64_t begin = 0, end = 0;  // empty if equal
  int64_t width = 0;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride and size, without those of size 1
  bool is_known = true;

  explicit Elements(const at::Tensor& fake) : width(static_cast<int64_t>(fake.itemsize())) {
    const auto offset = shapes::captured_number(fake.sym_storage_offset());
    is_known = offset.has_value();
    begin = offset.value_or(0) * width;
    int64_t last = begin;
    bool is_empty = false;
    for (int64_t dim = 0; dim < fake.dim(); ++dim) {
      const auto size = shapes::captured_number(fake.sym_size(dim)),
                 stride = shapes::captured_number(fake.sym_stride(dim));
      is_known &= size && stride;
      if (!is_known) return;
      is_empty |= *size == 0;
      if (*size != 1) dims.emplace_back(*stride * width, *size);
      last += (*size - 1) * *stride * width;
    }
    end = is_empty ? begin : last + width;
  }
  bool operator==(const Elements&) const = default;

  /// The columns that the elements take up in rows of so many bytes; none where they do not lie in columns.
  std::optional<std::pair<int64_t, int64_t>> columns(int64_t row) const {
    int64_t extent = width;
    for (const auto& [stride, size] : dims) {
      if (stride % row == 0) continue;
      extent += (size - 1) * stride;
    }
    const int64_t first = begin % row;
    if (first + extent > row) return std::nullopt;
    return std::pair(first, first + extent);
  }
};

/// Whether one element belongs to both, as far as ranges and columns tell.
bool overlap(const Elements& a, const Elements& b) {
  if (!a.is_known || !b.is_known) return true;
  if (a.begin == a.end || b.begin == b.end || a.begin >= b.end || b.begin >= a.end) return false;
  auto are_apart = [&](int64_t row) {
    if (row <= 0) return false;
    const auto left = a.columns(row), right = b.columns(row);
    return left && right && (left->second <= right->first || right->second <= left->first);
  };
  auto shows_it = [&](const auto& dim) { return are_apart(dim.first); };
  return std::ranges::none_of(a.dims, shows_it) && std::ranges::none_of(b.dims, shows_it);
}

/// An operand of a node, and its place: operands of equal places are elements of lists that are worked on together.
struct Operand {
  ValueId value;
  size_t place;
  bool is_written;
};

std::vector<Operand> operands_of(const Node& node) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < node.args.size(); ++i) {
    size_t place = 0;
    const bool is_written = writes_argument(node, i);
    for_each_value(node.args[i], [&](ValueId value) { operands.push_back({value, place++, is_written}); });
  }
  return operands;
}

/// Whether `is_wrong` holds for two of the operands that overlap. All of them lie in one memory.
template <class Test>
bool any_overlap(const Graph& graph, const std::vector<Operand>& operands, const Test& is_wrong) {
  if (operands.size() < 2) return false;
  std::vector<std::pair<Elements, Operand>> all;
  for (const Operand& operand : operands) all.emplace_back(Elements(graph.values[operand.value].fake), operand);
  std::ranges::sort(all, {}, [](const auto& part) { return part.first.begin; });
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i + 1; k < all.size(); ++k) {
      const Elements &a = all[i].first, &b = all[k].first;
      if (a.is_known && b.is_known && b.begin >= a.end) break;
      if (overlap(a, b) && is_wrong(all[i], all[k])) return true;
    }
  return false;
}

/// Whether the node writes to elements of another operand than the one at the same place, or to a part of that one.
bool writes_to_operands(const Graph& graph, const Node& node) {
  std::unordered_map<const void*, std::vector<Operand>> by_memory;
  for (const Operand& operand : operands_of(node))
    if (const void* memory = memory_of(graph.values[operand.value].fake); memory != nullptr)
      by_memory[memory].push_back(operand);
  auto are_same = [](const auto& a, const auto& b) {
    return a.second.value == b.second.value || (a.first.is_known && a.first == b.first);
  };
  auto is_wrong = [&](const auto& a, const auto& b) {
    return (a.second.is_written || b.second.is_written) && (a.second.place != b.second.place || !are_same(a, b));
  };
  return std::ranges::any_of(by_memory, [&](const auto& entry) { return any_overlap(graph, entry.second, is_wrong); });
}

/// Whether inputs overlap in a storage that the graph writes to.
bool writes_to_overlapping_inputs(const Graph& graph, const Aliasing& aliasing) {
  std::unordered_map<const void*, std::vector<Operand>> by_memory;
  for (ValueId input : graph.inputs) {
    const at::Tensor& fake = graph.values[input].fake;
    if (const void* memory = memory_of(fake);
        memory != nullptr && aliasing.inputs_sharing(input).size() > 1 && aliasing.is_written(fake))
      by_memory[memory].push_back({input, 0, false});
  }
  auto is_wrong = [](const auto&, const auto&) { return true; };
  return std::ranges::any_of(by_memory, [&](const auto& entry) { return any_overlap(graph, entry.second, is_wrong); });
}

/// Whether the graph replaces a tensor's data (`set_data`) and also writes to the old or the new data.
bool writes_to_exchanged(const Graph& graph) {
  std::unordered_set<ValueId> exchanged, views;
  std::unordered_set<const void*> memories;
  auto is_exchange = [](const Node& node) { return node.op.operator_name().name == "aten::set_data"; };
  for (const Node& node : graph.nodes) {
    if (!is_exchange(node)) continue;
    exchanged.insert(node.args[0].value);
    for (const Argument& operand : node.args) memories.insert(memory_of(graph.values[operand.value].fake));
  }
  if (exchanged.empty()) return false;
  for (const Node& node : graph.nodes) {
    bool reads_it = false;
    for (const Argument& argument : node.args)
      for_each_value(argument, [&](ValueId id) { reads_it |= exchanged.contains(id) || views.contains(id); });
    const auto& returns = node.op.schema().returns();
    const bool is_view = std::ranges::any_of(returns, [](const auto& made) { return made.alias_info() != nullptr; });
    if (reads_it && is_view) for_each_result(node, [&](ValueId id) { views.insert(id); });
    bool writes = false;
    for_each_written(node, [&](ValueId id) {
      writes |= exchanged.contains(id) || views.contains(id) || memories.contains(memory_of(graph.values[id].fake));
    });
    if (writes && !is_exchange(node)) return true;
  }
  return false;
}

}  // namespace

bool writes_to_overlaps(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    bool overlaps = false;
    for_each_written(node, [&](ValueId id) {
      const at::Tensor& fake = graph.values[id].fake;
      overlaps |= fake.defined() && at::has_internal_overlap(fake) == at::MemOverlap::Yes;
    });
    if (overlaps || (may_write(node.op) && writes_to_operands(graph, node))) return true;
  }
  return writes_to_overlapping_inputs(graph, Aliasing(graph)) || writes_to_exchanged(graph);
}

}  // namespace stator::graph
