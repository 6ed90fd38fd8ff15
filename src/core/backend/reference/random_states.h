#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace stator::backend {

/// States of the default random generators: of the CPU, and of the devices of some tensors.
class RandomStates {
 public:
  /// The current states. Like torch.utils.checkpoint, only for one type of devices: CUDA if a tensor is there, or the
  /// first one that is not the CPU.
  explicit RandomStates(const std::vector<at::Tensor>& tensors);

  /// RAII: sets the states, and restores those that it found. Null: does nothing.
  class Scope {
   public:
    explicit Scope(const RandomStates* states);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::vector<std::pair<at::Generator, at::Tensor>> before_;
  };

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

}  // namespace stator::backend
