#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// A graph flattened into steps over an array of tensors. Immutable once built; owns the graph it was made from.
class ReferenceExecutable final : public Executable {
 public:
  explicit ReferenceExecutable(std::shared_ptr<const graph::Graph> graph);
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const override;

 private:
  /// Where one argument comes from. `Move` empties the register: nothing reads it afterwards. `Number`: the plain
  /// number that the tensor in it holds.
  struct Operand {
    enum class Kind : uint8_t { Constant, Copy, Move, List, Number };
    Kind kind;
    uint32_t index;  // into constants_, the registers or lists_
  };
  struct List {
    bool optional_items;
    c10::TypeKind numbers;  // of a list of numbers; AnyType: tensors
    std::vector<Operand> items;
  };
  /// Where one return goes: a register, a list of them, or nowhere.
  struct Place {
    bool is_list;
    uint32_t index;  // register or index into list_places_; kDropped
  };
  struct Step {
    c10::OperatorHandle op;
    uint32_t first_operand;
    uint32_t num_operands;
    uint32_t first_place;
    uint32_t num_places;
    uint32_t state;
    bool switches_state;  // differs from the step before
  };
  static constexpr uint32_t kDropped = UINT32_MAX;
  class Run;

  class Builder;

  std::shared_ptr<const graph::Graph> graph_;
  std::vector<Step> steps_;
  std::vector<Operand> operands_;
  std::vector<c10::IValue> constants_;
  std::vector<List> lists_;
  std::vector<Place> places_;
  std::vector<std::vector<uint32_t>> list_places_;
  std::vector<Operand> inputs_;   // index: register to fill; Move: dropped at once
  std::vector<Operand> outputs_;  // Copy or Move out of a register
  size_t stack_size_ = 0;
  size_t num_registers_ = 0;  // as many as values are alive at once
  bool may_skip_autograd_;
};

}  // namespace stator::backend
