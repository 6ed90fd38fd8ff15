#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

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

/// Floats and ints of the program, by source (`Source::describe`), and sizes and strides of tensors. Plain data without
/// Python.
struct Numbers {
  std::unordered_set<std::string> floats;
  std::unordered_set<std::string> ints;
  Dimensions sizes, strides;

  bool has_numbers() const { return !floats.empty() || !ints.empty() || !sizes.empty() || !strides.empty(); }
  /// Adds the floats, ints, sizes and strides of `other`, or removes them.
  void add_numbers(const Numbers& other) {
    floats.insert(other.floats.begin(), other.floats.end());
    ints.insert(other.ints.begin(), other.ints.end());
    sizes.add(other.sizes);
    strides.add(other.strides);
  }
  void remove_numbers(const Numbers& other) {
    for (const std::string& source : other.floats) floats.erase(source);
    for (const std::string& source : other.ints) ints.erase(source);
    sizes.remove(other.sizes);
    strides.remove(other.strides);
  }
};

}  // namespace stator::capture
