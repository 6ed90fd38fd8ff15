#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace stator::tracer {

/// Torch's bindings make a new tensor for each Python number passed as a tensor. Equal ones (same dtype and bits)
/// are replaced by one tensor, so that a graph holds each number once.
class Numbers {
 public:
  /// `number` itself, or the first tensor equal to it. It must be a real tensor.
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
