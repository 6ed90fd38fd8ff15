#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "capture/values/value.h"

namespace stator::capture {

/// Owns the values of one capture attempt, in a few large blocks of memory.
class ValueArena {
 public:
  ValueArena() = default;
  ~ValueArena() {
    for (Value* value : values_) value->~Value();
  }
  ValueArena(const ValueArena&) = delete;

  template <class T, class... Args>
  T* make(Args&&... args) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    T* made = new (place(sizeof(T))) T(std::forward<Args>(args)...);
    values_.push_back(made);
    return made;
  }
  NullValue* null() { return &null_; }
  size_t count() const { return values_.size(); }
  /// Whether the value was among the first `count` ones.
  bool is_among_first(const Value* value, size_t count) const {
    auto end = values_.begin() + static_cast<ptrdiff_t>(count);
    return std::find(values_.begin(), end, value) != end;
  }

 private:
  static constexpr size_t kBlock = 1 << 14;

  void* place(size_t size) {
    size = (size + alignof(std::max_align_t) - 1) & ~(alignof(std::max_align_t) - 1);
    if (size > left_) {
      left_ = std::max(size, kBlock);
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(left_));
      free_ = blocks_.back().get();
    }
    left_ -= size;
    return std::exchange(free_, free_ + size);
  }

  NullValue null_;
  std::vector<Value*> values_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* free_ = nullptr;
  size_t left_ = 0;
};

}  // namespace stator::capture
