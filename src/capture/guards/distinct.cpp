#include "capture/guards/distinct.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "capture/guards/array_layout.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

/// Of one tensor in a layout. Tensors of one cluster lie in overlapping storages. Clusters that are written to have the
/// lowest numbers.
struct Place {
  int64_t cluster;   // the number of its first tensor
  int64_t distance;  // in bytes: from the first tensor; of that one from the start of its storage, or kAlone
  int64_t is_apart;  // it shares memory with the first one, but not its storage (two tensors made from one array)
};
constexpr int64_t kAlone = INT64_MIN;  // nothing else lies in the cluster

int64_t bytes_between(uintptr_t from, uintptr_t to) { return static_cast<int64_t>(to) - static_cast<int64_t>(from); }

MemoryRange range_of(PyObject* object) {
  MemoryRange range = memory_of(object);
  return range.end > range.begin ? range : MemoryRange{};
}

/// Numbers of the ranges in the order of their addresses; without the empty ones.
std::vector<uint32_t> by_address(const std::vector<MemoryRange>& ranges) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].end) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return ranges[a].begin < ranges[b].begin; });
  return order;
}

/// Calls `visit(number, overlaps)` in the order of addresses; `overlaps`: with one that was visited before.
template <class Visit>
bool sweep(const std::vector<MemoryRange>& ranges, const Visit& visit) {
  uintptr_t end = 0;
  for (uint32_t i : by_address(ranges)) {
    if (!visit(i, ranges[i].begin < end)) return false;
    end = std::max(end, ranges[i].end);
  }
  return true;
}

}  // namespace

PyObject* represented_by(PyObject* object) {
  PyObject* dict;
  if (stator_instance_dict(object, &dict) == kStatorDictObject && dict) return dict;
  return PyDict_Check(object) ? nullptr : object;
}

/// In one pass over the slots, with a hash table of the changed objects.
bool are_distinct(const DistinctSlots& group, PyObject* const* slots) {
  auto key_at = [&](size_t i) {
    PyObject* object = slots[group.slots[i]];
    return group.compares_dict(i) ? represented_by(object) : object;
  };
  if (group.changed == 1) {
    PyObject* changed = key_at(0);
    for (size_t i = 1; i < group.slots.size(); ++i)
      if (key_at(i) == changed && changed) return false;
    return true;
  }
  constexpr size_t kFew = 8;
  if (const size_t count = group.slots.size(); count <= kFew) {
    PyObject* keys[kFew];
    for (size_t i = 0; i < count; ++i) keys[i] = key_at(i);
    for (size_t i = 0; i < group.changed; ++i)
      if (keys[i] && std::find(keys + i + 1, keys + count, keys[i]) != keys + count) return false;
    return true;
  }
  size_t size = 16;
  while (size < 2 * group.changed) size *= 2;
  static thread_local std::vector<PyObject*> table;
  table.assign(size, nullptr);
  for (size_t i = 0; i < group.slots.size(); ++i) {
    PyObject* object = key_at(i);
    if (!object) continue;
    size_t at = (reinterpret_cast<uintptr_t>(object) >> 4) * 0x9E3779B97F4A7C15u >> 20 & (size - 1);
    for (; table[at]; at = (at + 1) & (size - 1))
      if (table[at] == object) return false;
    if (i < group.changed) table[at] = object;
  }
  return true;
}

Ref memory_layout(std::span<PyObject* const> tensors, size_t written) {
  std::vector<MemoryRange> ranges;
  for (PyObject* tensor : tensors) ranges.push_back(range_of(tensor));
  std::vector<uint32_t> found(tensors.size());  // the cluster of each, in the order of addresses
  uint32_t last = 0;
  sweep(ranges, [&](uint32_t i, bool overlaps) {
    found[i] = overlaps ? last : ++last;
    return true;
  });
  std::vector<Place> places;
  std::unordered_map<uint32_t, uint32_t> first;  // of each cluster that is written to
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const bool is_empty = !ranges[i].end;
    auto known = is_empty ? first.end() : first.find(found[i]);
    if (known != first.end()) {
      const MemoryRange& start = ranges[known->second];
      places[known->second].distance = bytes_between(start.begin, start.data);
      places.push_back({static_cast<int64_t>(known->second), bytes_between(start.data, ranges[i].data),
                        start.owner != ranges[i].owner});
      continue;
    }
    if (!is_empty && i < written) first.emplace(found[i], i);
    places.push_back({static_cast<int64_t>(i), kAlone, 0});
  }
  return Ref::steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(places.data()),
                                              static_cast<Py_ssize_t>(places.size() * sizeof(Place))));
}

bool shares_beyond_storages(PyObject* layout) {
  const auto* places = reinterpret_cast<const Place*>(PyBytes_AS_STRING(layout));
  const size_t count = static_cast<size_t>(PyBytes_GET_SIZE(layout)) / sizeof(Place);
  return std::any_of(places, places + count, [](const Place& place) { return place.is_apart != 0; });
}

bool has_memory_layout(const DistinctSlots& group, PyObject* const* slots, PyObject* layout) {
  const auto* places = reinterpret_cast<const Place*>(PyBytes_AS_STRING(layout));
  static thread_local std::vector<MemoryRange> ranges;
  ranges.clear();
  for (size_t i = 0; i < group.slots.size(); ++i) {
    ranges.push_back(range_of(slots[group.slots[i]]));
    const auto first = static_cast<size_t>(places[i].cluster);
    const uintptr_t from = first == i ? ranges[i].begin : ranges[first].data;
    if (places[i].distance == kAlone) continue;
    if (bytes_between(from, ranges[i].data) != places[i].distance) return false;
    if ((ranges[first].owner != ranges[i].owner) != (places[i].is_apart != 0)) return false;
  }
  // The first tensor of a cluster that is written to is one of those that are.
  int64_t cluster = -1;
  bool is_written = false;
  return sweep(ranges, [&](uint32_t i, bool overlaps) {
    const int64_t own = places[i].cluster;
    const bool is_own_written = static_cast<size_t>(own) < group.changed;
    if (overlaps && own != cluster && (is_written || is_own_written)) return false;
    is_written = is_own_written || (overlaps && is_written);
    cluster = own;
    return true;
  });
}

}  // namespace stator::capture
