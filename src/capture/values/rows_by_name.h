#pragma once

#include <span>

#include "capture/values/class_lookups.h"
#include "core/base/pointer_map.h"

namespace stator::capture {

/// Finds the row of a constant table whose field `name` equals a Python string, without a comparison of texts. Of rows
/// with one name, the first is found. The rows must outlive it; it owns their names, which are interned.
template <class Row>
class RowsByName {
 public:
  explicit RowsByName(std::span<const Row> rows) {
    for (const Row& row : rows) rows_.insert(PyUnicode_InternFromString(row.name), &row);
  }
  /// Null if there is none.
  const Row* find(PyObject* name) const {
    const Row* const* found = rows_.find(PyUnicode_CHECK_INTERNED(name) ? name : interned(name).get());
    return found ? *found : nullptr;
  }

 private:
  PointerMap<const Row*> rows_;  // by interned name
};

}  // namespace stator::capture
