#pragma once

#include <span>
#include <vector>

#include "capture/pycompat/ref.h"

/// Guards on groups of objects: which of them are the same, and which share memory.
namespace stator::capture {

/// Slots of which the first `changed` hold objects that no other slot here holds.
struct DistinctSlots {
  std::vector<int32_t> slots;
  size_t changed;
  std::vector<bool> by_dict;  // for each slot: objects that share one `__dict__` count as one; empty: for none

  bool compares_dict(size_t at) const { return !by_dict.empty() && by_dict[at]; }
};

/// What stands for an object where a shared `__dict__` makes two objects one: that dict, or the object if it has none.
/// Null for a dict without a `__dict__`: as a dict it is in the group by itself.
PyObject* represented_by(PyObject* object);

bool are_distinct(const DistinctSlots& group, PyObject* const* slots);

/// How tensors and arrays share memory, as bytes for `has_memory_layout`. The first `written` of them are written to:
/// what lies in the same storages as one of these must keep its distance from it; all else must stay out of them.
Ref memory_layout(std::span<PyObject* const> tensors, size_t written);
/// Whether one lies in memory that is written to through another storage, which torch does not know of.
bool shares_beyond_storages(PyObject* layout);
bool has_memory_layout(const DistinctSlots& group, PyObject* const* slots, PyObject* layout);

}  // namespace stator::capture
