#pragma once

#include <ATen/core/boxing/impl/make_boxed_from_unboxed_functor.h>
#include <ATen/core/stack.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "core/passes/decompositions/table.h"

namespace stator::passes {

/// A C++ function with the operator's signature as a Decomposition: arguments come from the stack, results go there. It
/// may return an optional: none for arguments that it does not cover.
template <auto function>
struct Unboxed;

template <class Result, class... Args, Result (*function)(Args...)>
struct Unboxed<function> {
  static bool call(const c10::OperatorHandle&, torch::jit::Stack& stack) {
    return apply(stack, std::index_sequence_for<Args...>());
  }

 private:
  template <size_t... I>
  static bool apply(torch::jit::Stack& stack, std::index_sequence<I...>) {
    const size_t first = stack.size() - sizeof...(Args);
    Result made = function(stack[first + I].to<std::decay_t<Args>>()...);
    if (!is_made(made)) return false;
    torch::jit::drop(stack, sizeof...(Args));
    push(stack, std::move(made));
    return true;
  }
  template <class T>
  static bool is_made(const T&) {
    return true;
  }
  template <class T>
  static bool is_made(const std::optional<T>& made) {
    return made.has_value();
  }
  template <class T>
  static void push(torch::jit::Stack& stack, std::optional<T>&& made) {
    push(stack, std::move(*made));
  }
  static void push(torch::jit::Stack& stack, at::Tensor&& made) { stack.emplace_back(std::move(made)); }
  static void push(torch::jit::Stack& stack, std::vector<at::Tensor>&& made) { stack.emplace_back(std::move(made)); }
  template <class... Parts>
  static void push(torch::jit::Stack& stack, std::tuple<Parts...>&& made) {
    std::apply([&](auto&&... part) { (stack.emplace_back(std::move(part)), ...); }, std::move(made));
  }
};

/// The row of an operator that a function of its signature decomposes.
template <auto function>
constexpr DecompositionRow row(std::string_view name) {
  return {name, &Unboxed<function>::call};
}

}  // namespace stator::passes
