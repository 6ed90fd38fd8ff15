#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "capture/values/numbers.h"
#include "capture/values/shapes_spec.h"
#include "capture/values/source_patterns.h"

namespace stator::capture {

/// Sources whose values change from call to call (`Source::describe`). A capture does not specialise on them: floats
/// are inputs of the graph, ints inputs with a backed symbol, and sizes are symbolic.
struct Varying : Numbers {
  std::unordered_set<std::string> values;  // a capture breaks where the program needs the value
  /// Where each call brought an object that the guards refer to and that died after it: a capture breaks there.
  std::unordered_set<std::string> mortal;
  bool all_sizes = false;   // the user asked for symbolic sizes of all tensors
  bool all_ints = false;    // the user asked for symbols for the ints among the arguments
  bool parameters = false;  // sizes of parameters may be symbols
  std::shared_ptr<const SourcePatterns> dynamic, unbacked;  // sources that the user names; null: none
  std::shared_ptr<const ShapesSpec> spec;                   // what the user stated of the arguments; null: nothing
  std::vector<int64_t> asked_values;                        // sizes and ints of these values vary, wherever they are
  bool changed_are_unbacked = false;                        // sizes that changed become unbacked symbols
  bool marks_are_strict = true;                             // a size that `mark_dynamic` marks is never a constant
  bool takes_strides = true;                                // strides may be symbols
  Dimensions fixed_sizes, fixed_strides;  // sizes and numbers that are not inputs, whatever the user asked for
  std::unordered_set<std::string> fixed_ints, fixed_floats;

  /// Whether the user asked for symbols for all numbers of this value.
  bool asks_for(int64_t number) const;
  /// Whether the value at this source varies.
  bool contains(const Source& source) const;
  /// Whether the number at this source, which varies, may be an input of the graph.
  bool is_input(const Source& source) const;
  /// The floats, ints and sizes among these that the text of a break names.
  Varying named_in(const std::string& text) const;
};

/// A size in the text of a break that needs its value. Several sizes and sources of numbers are separated by ", ".
inline std::string size_text(const std::string& tensor, int64_t dim) {
  return tensor + ".size(" + std::to_string(dim) + ")";
}
inline std::string stride_text(const std::string& tensor, int64_t dim) {
  return tensor + ".stride(" + std::to_string(dim) + ")";
}
/// The sizes that such a text names.
Dimensions sizes_in(const std::string& text);
Dimensions strides_in(const std::string& text);

}  // namespace stator::capture
