#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "capture/values/source.h"

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
  Dimensions sizes;                        // symbolic sizes of tensors
  bool all_sizes = false;                  // the user asked for symbolic sizes of all tensors but parameters
  Dimensions fixed_sizes;                  // sizes that are specialised on, whatever the user asked for

  bool contains(const Source& source) const {
    if (values.empty() && floats.empty()) return false;
    const std::string text = source.describe();
    return values.contains(text) || (source.object && PyFloat_CheckExact(source.object.get()) && floats.contains(text));
  }
  bool has_numbers() const { return !floats.empty() || !sizes.empty(); }
  /// Adds the floats and sizes of `other`, or removes them.
  void add_numbers(const Varying& other) {
    floats.insert(other.floats.begin(), other.floats.end());
    sizes.add(other.sizes);
  }
  void remove_numbers(const Varying& other) {
    for (const std::string& source : other.floats) floats.erase(source);
    sizes.remove(other.sizes);
  }
};

/// A size in the text of a break that needs its value; several are separated by ", ".
inline std::string size_text(const std::string& tensor, int64_t dim) {
  return tensor + ".size(" + std::to_string(dim) + ")";
}
/// The sizes that such a text names.
Dimensions sizes_in(const std::string& text);

}  // namespace stator::capture
