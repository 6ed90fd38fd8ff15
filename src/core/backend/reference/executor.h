#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/reference/control.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// A graph flattened into steps over an array of values. Immutable once built; owns the graph it was made from.
class ReferenceExecutable final : public Executable {
 public:
  explicit ReferenceExecutable(std::shared_ptr<const graph::Graph> graph);
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const override;
  Failure failure() const override;

 private:
  /// The source of one argument. `Move` empties the register: nothing reads it afterwards. `Number`: the plain
  /// number that the tensor in the register holds. `Boxed`: a tensor of the plain number in it.
  struct Operand {
    enum class Kind : uint8_t { Constant, Copy, Move, List, Number, Boxed };
    Kind kind;
    uint32_t index;  // into constants_, the registers or lists_
  };
  struct List {
    bool optional_items;
    c10::TypeKind numbers;  // of a list of numbers; AnyType: tensors
    std::vector<Operand> items;
  };
  /// The destination of one return: a register, a list of registers, or none. `is_number`: as a plain number.
  /// `is_base`: a new tensor that is not a view.
  struct Place {
    bool is_list;
    bool is_number;
    bool is_base;
    uint32_t index;  // register or index into list_places_; kDropped
  };
  struct Step {
    c10::OperatorHandle op;
    uint32_t first_operand;
    uint32_t num_operands;
    uint32_t first_place;
    uint32_t num_places;
    uint32_t state;
    bool switches_state;  // its state differs from that of the previous step
    uint32_t control;     // index into controls_; kNoControl: the dispatcher runs the step
  };
  static constexpr uint32_t kDropped = UINT32_MAX;
  static constexpr uint32_t kNoControl = UINT32_MAX;
  class Run;

  class Builder;

  std::shared_ptr<const graph::Graph> graph_;
  std::vector<Step> steps_;
  std::vector<Operand> operands_;
  std::vector<c10::IValue> constants_;
  std::vector<List> lists_;
  std::vector<std::unique_ptr<ControlNode>> controls_;
  std::vector<Place> places_;
  std::vector<std::vector<uint32_t>> list_places_;
  std::vector<Place> inputs_;     // registers to fill
  std::vector<Operand> outputs_;  // Copy, Move or Boxed
  size_t stack_size_ = 0;
  size_t num_registers_ = 0;  // the maximum number of values alive at once
  bool may_skip_autograd_;
  bool has_ranges_ = false;  // some node is in a range of the profiler
};

}  // namespace stator::backend
