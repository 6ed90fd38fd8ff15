#pragma once

#include <string>
#include <unordered_set>

#include "capture/values/source.h"

namespace stator::capture {

/// Sources whose values change from call to call (`Source::describe`). A capture does not specialise on them.
struct Varying {
  std::unordered_set<std::string> values;  // a capture breaks where the program needs the value
  std::unordered_set<std::string> floats;  // a float there is an input of the graph

  bool contains(const Source& source) const {
    if (values.empty() && floats.empty()) return false;
    const std::string text = source.describe();
    return values.contains(text) || (source.object && PyFloat_CheckExact(source.object.get()) && floats.contains(text));
  }
};

}  // namespace stator::capture
