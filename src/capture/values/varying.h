#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "capture/values/source_patterns.h"

namespace stator::capture {

/// Dimensions of tensors, by source (`Source::describe`): a bit for each.
class Dimensions {
 public:
  bool empty() const { return bits_.empty(); }
  size_t size() const { return bits_.size(); }
  uint64_t of(const std::string& source) const {
    auto found = bits_.find(source);
    return found == bits_.end() ? 0 : found->second;
  }
  void add(const std::string& source, uint64_t dims) {
    if (dims != 0) bits_[source] |= dims;
  }
  void add(const Dimensions& other) {
    for (const auto& [source, dims] : other.bits_) add(source, dims);
  }
  /// Calls `take` with each source and dimension.
  template <class F>
  void for_each(F&& take) const {
    for (const auto& [source, dims] : bits_)
      for (int dim = 0; dim < 64; ++dim)
        if ((dims >> dim & 1) != 0) take(source, dim);
  }
  void remove(const Dimensions& other) {
    for (const auto& [source, dims] : other.bits_)
      if (auto found = bits_.find(source); found != bits_.end() && (found->second &= ~dims) == 0) bits_.erase(found);
  }

 private:
  std::unordered_map<std::string, uint64_t> bits_;
};

/// Sources whose values change from call to call (`Source::describe`). A capture does not specialise on them.
struct Varying {
  std::unordered_set<std::string> values;  // a capture breaks where the program needs the value
  std::unordered_set<std::string> floats;  // a float there is an input of the graph
  std::unordered_set<std::string> ints;    // an int there is an input of the graph with a backed symbol
  Dimensions sizes;                        // symbolic sizes of tensors
  bool all_sizes = false;                  // the user asked for symbolic sizes of all tensors
  bool all_ints = false;                   // the user asked for symbols for the ints among the arguments
  bool parameters = false;                 // sizes of parameters may be symbols
  std::shared_ptr<const SourcePatterns> dynamic, unbacked;  // sources that the user names; null: none
  Dimensions fixed_sizes;  // sizes and numbers that are no inputs, whatever the user asked for
  std::unordered_set<std::string> fixed_ints, fixed_floats;

  /// Whether the value at this source varies.
  bool contains(const Source& source) const;
  /// Whether the number at this source, which varies, may be an input of the graph.
  bool is_input(const Source& source) const;
  bool has_numbers() const { return !floats.empty() || !ints.empty() || !sizes.empty(); }
  /// Adds the floats, ints and sizes of `other`, or removes them.
  void add_numbers(const Varying& other);
  void remove_numbers(const Varying& other);
  /// The floats, ints and sizes among these that the text of a break names.
  Varying named_in(const std::string& text) const;
};

/// A size in the text of a break that needs its value. Several sizes and sources of numbers are separated by ", ".
inline std::string size_text(const std::string& tensor, int64_t dim) {
  return tensor + ".size(" + std::to_string(dim) + ")";
}
/// The sizes that such a text names.
Dimensions sizes_in(const std::string& text);

}  // namespace stator::capture
