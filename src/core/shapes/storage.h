#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "core/shapes/expr.h"

namespace stator::shapes {

/// Owns the expressions of an environment, and finds them by structure. Nothing is freed before the storage.
class Storage {
 public:
  /// The expression with the operator, type, symbol, constant, operands, numbers and addend of `key`; null if there is
  /// none yet. Sets `key.hash`.
  Ex find(Expression& key) const;
  /// Adds what `find` did not find. Copies operands and numbers.
  Expression* add(const Expression& key);
  size_t size() const { return expressions_.size(); }

 private:
  template <class T>
  const T* copy(const T* values, uint32_t count);
  void grow();

  std::deque<Expression> expressions_;
  std::vector<Ex> slots_;  // open addressing; the size is a power of two
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* free_ = nullptr;
  size_t left_ = 0;
};

}  // namespace stator::shapes
