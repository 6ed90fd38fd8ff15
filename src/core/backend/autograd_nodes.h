#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace stator::backend {

/// A new autograd node of class `T`, as its base class. Nodes are owned by intrusive pointers or, in releases of torch
/// before 2.12, by shared ones.
template <class T, class Base = T>
auto make_autograd_node() {
  using Owner = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Owner, std::shared_ptr<torch::autograd::Node>>) {
    return std::shared_ptr<Base>(std::make_shared<T>());
  } else {
    return c10::intrusive_ptr<Base>(c10::make_intrusive<T>());
  }
}

}  // namespace stator::backend
