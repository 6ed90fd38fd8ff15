#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace stator::tracer {

/// Python numbers in the place of tensors come as a fresh tensor for each call. Equal ones (same dtype, same bits)
/// share one here, so that a graph holds each number once.
class Numbers {
 public:
  /// `number` itself, or the equal one that came first. It must be real.
  const at::Tensor& shared(const at::Tensor& number);

 private:
  struct Key {
    at::ScalarType dtype;
    uint64_t bits[2];
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, at::Tensor, Hash> known_;
};

}  // namespace stator::tracer
