#pragma once

#include <memory>
#include <optional>

#include "capture/values/source_patterns.h"

namespace stator {

/// Which sizes and ints a capture makes symbols, by `stator.config`, torch's settings if its modules are imported, and
/// the argument `dynamic` of `compile`.
struct ShapeSettings {
  bool all_sizes = false, all_ints = false;        // from the first capture on
  bool changed_sizes = true, changed_ints = true;  // those that changed
  bool changed_floats = true;
  bool changed_are_unbacked = false;  // sizes that changed become unbacked symbols
  std::vector<int64_t> values;        // sizes and ints of these values, from the first capture on
  bool parameters = false;            // sizes of parameters, too
  std::shared_ptr<const capture::SourcePatterns> dynamic, unbacked;  // sources that the user names; null: none
};

/// Null with a Python error set if a list of sources is invalid.
std::optional<ShapeSettings> shape_settings(std::optional<bool> dynamic);

}  // namespace stator
