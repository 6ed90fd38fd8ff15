#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stator {

/// A hash map from addresses to small values, in one array with open addressing. Null is not a valid key.
/// Pointers to values are valid until the next insertion or removal.
template <class Value>
class PointerMap {
 public:
  size_t size() const { return used_; }
  /// Makes room for that many keys in an empty map.
  void reserve(size_t keys) {
    if (keys > 0 && slots_.empty()) slots_.resize(std::max<size_t>(16, std::bit_ceil(keys * 3 / 2 + 1)));
  }

  /// Null if the key is absent.
  const Value* find(const void* key) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = home(key);; i = next(i)) {
      if (slots_[i].first == key) return &slots_[i].second;
      if (slots_[i].first == nullptr) return nullptr;
    }
  }

  /// Inserts `value` unless the key is present. Returns the value under the key, and whether it was inserted.
  std::pair<Value*, bool> insert(const void* key, Value value) {
    if ((used_ + 1) * 3 > slots_.size() * 2) grow();
    size_t i = home(key);
    for (; slots_[i].first != nullptr; i = next(i)) {
      if (slots_[i].first == key) return {&slots_[i].second, false};
    }
    slots_[i] = {key, std::move(value)};
    ++used_;
    return {&slots_[i].second, true};
  }

  void set(const void* key, Value value) { *insert(key, value).first = value; }

  /// Calls `f(key, value)` for each entry, in no particular order. `f` must not insert or remove.
  template <class F>
  void for_each(const F& f) const {
    for (const auto& [key, value] : slots_)
      if (key != nullptr) f(key, value);
  }
  template <class F>
  void for_each(const F& f) {
    for (auto& [key, value] : slots_)
      if (key != nullptr) f(key, value);
  }

  void erase(const void* key) {
    if (slots_.empty()) return;
    size_t hole = home(key);
    for (; slots_[hole].first != key; hole = next(hole)) {
      if (slots_[hole].first == nullptr) return;
    }
    // A later entry of the same run moves into the hole if the hole lies between its home slot and its place.
    for (size_t i = next(hole); slots_[i].first != nullptr; i = next(i)) {
      size_t from_home = (i - home(slots_[i].first)) & (slots_.size() - 1);
      size_t from_hole = (i - hole) & (slots_.size() - 1);
      if (from_home < from_hole) continue;
      slots_[hole] = std::move(slots_[i]);
      hole = i;
    }
    slots_[hole] = {};
    --used_;
  }

 private:
  /// Addresses in one page of memory get neighbouring slots: objects that were allocated together are looked up
  /// together.
  size_t home(const void* key) const {
    auto address = reinterpret_cast<uintptr_t>(key);
    uint64_t page = (address >> 12) * 0x9E3779B97F4A7C15ull;
    return ((page >> (64 - std::countr_zero(slots_.size()))) + ((address >> 5) & 127)) & (slots_.size() - 1);
  }
  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }

  void grow() {
    std::vector<std::pair<const void*, Value>> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (auto& [key, value] : old) {
      if (key != nullptr) insert(key, std::move(value));
    }
  }

  std::vector<std::pair<const void*, Value>> slots_;  // their number is a power of two
  size_t used_ = 0;
};

}  // namespace stator
