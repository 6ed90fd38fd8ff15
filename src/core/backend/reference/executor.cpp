#include "core/backend/reference/executor.h"

#include <ATen/core/List.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "core/backend/reference/autograd_skip.h"
#include "core/graph/exec_state.h"
#include "core/observe/profile.h"
#include "core/shapes/number_ops.h"

namespace stator::backend {
namespace {

/// The latest run on this thread that threw. The weak reference to the graph ensures that its address is not reused.
struct FailedRun {
  std::weak_ptr<const graph::Graph> graph;
  uint32_t node = kNoNode;
};
thread_local FailedRun last_failed;

template <class T>
c10::IValue typed_list(const std::vector<c10::IValue>& items) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const auto& item : items) list.push_back(item.to<T>());
  return list;
}

}  // namespace

uint32_t failed_node() { return last_failed.node; }

std::optional<FailedOp> failed_op(const graph::Graph& graph) {
  if (last_failed.graph.lock().get() != &graph || last_failed.node >= graph.nodes.size()) return std::nullopt;
  const auto& node = graph.nodes[last_failed.node];
  return FailedOp{last_failed.node, node.op.operator_name(), graph.call_chain(node.location)};
}

/// The program's ranges of the profiler that are open in a run.
class OpenRanges {
 public:
  explicit OpenRanges(const graph::Graph& graph) : graph_(graph) {}
  ~OpenRanges() { close(0); }
  OpenRanges(const OpenRanges&) = delete;
  OpenRanges& operator=(const OpenRanges&) = delete;

  /// Closes and opens ranges so that `range`, and those around it, are open.
  void enter(uint32_t range) {
    if (range == (open_.empty() ? 0 : open_.back().index)) return;
    std::vector<uint32_t> chain;
    for (uint32_t at = range; at != 0; at = graph_.ranges[at].outer)
      if (!graph_.ranges[at].name.empty()) chain.insert(chain.begin(), at);
    size_t shared = 0;
    while (shared < open_.size() && shared < chain.size() && open_[shared].index == chain[shared]) ++shared;
    close(shared);
    for (; shared < chain.size(); ++shared) {
      auto name = [&] { return graph_.ranges[chain[shared]].name; };
      open_.push_back({chain[shared], std::make_unique<observe::ProfiledRange>(name)});
    }
  }

 private:
  struct Open {
    uint32_t index;
    std::unique_ptr<observe::ProfiledRange> range;
  };
  void close(size_t keep) {
    while (open_.size() > keep) open_.pop_back();
  }

  const graph::Graph& graph_;
  std::vector<Open> open_;
};

/// One run's registers. Local to the call, so that runs on different threads share nothing.
class ReferenceExecutable::Run {
 public:
  explicit Run(const ReferenceExecutable& program) : program_(program), registers_(program.num_registers_) {
    stack_.reserve(program.stack_size_);
  }

  bool skips_autograd = false;  // in the step that runs

  void take_inputs(std::vector<at::Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      c10::IValue tensor = std::move(inputs[i]);
      store(program_.inputs_[i], tensor);
    }
  }

  /// Inlined with what it calls for each operand and result: a step costs little more than its operator's call.
  C10_ALWAYS_INLINE void step(const Step& step) {
    for (uint32_t i = 0; i < step.num_operands; ++i) push(program_.operands_[step.first_operand + i]);
    if (step.control == kNoControl)
      step.op.callBoxed(&stack_);
    else
      stack_ = {program_.controls_[step.control]->run(stack_)};
    for (uint32_t i = 0; i < step.num_places; ++i) store(program_.places_[step.first_place + i], stack_[i]);
    stack_.clear();
  }

  std::vector<at::Tensor> outputs() {
    std::vector<at::Tensor> outputs;
    outputs.reserve(program_.outputs_.size());
    for (const auto& operand : program_.outputs_) outputs.push_back(tensor(operand));
    return outputs;
  }

 private:
  at::Tensor tensor(const Operand& operand) {
    switch (operand.kind) {
      case Operand::Kind::Move:
        return std::move(registers_[operand.index]).toTensor();
      case Operand::Kind::Copy:
        return registers_[operand.index].toTensor();
      case Operand::Kind::Boxed:
        return shapes::number_tensor(shapes::to_number(registers_[operand.index]));
      default:
        return program_.constants_[operand.index].toTensor();
    }
  }

  bool is_none(const Operand& operand) const {
    return operand.kind == Operand::Kind::Constant && program_.constants_[operand.index].isNone();
  }

  C10_ALWAYS_INLINE void push(const Operand& operand) {
    switch (operand.kind) {
      case Operand::Kind::Constant:
        stack_.push_back(program_.constants_[operand.index]);
        return;
      case Operand::Kind::Copy:
        stack_.push_back(registers_[operand.index]);
        return;
      case Operand::Kind::Move:
        stack_.push_back(std::move(registers_[operand.index]));
        return;
      default:
        push_rare(operand);
    }
  }

  C10_NOINLINE void push_rare(const Operand& operand) {
    if (operand.kind == Operand::Kind::Number) {
      stack_.push_back(shapes::plain_number(registers_[operand.index].toTensor()));
    } else if (operand.kind == Operand::Kind::Boxed) {
      stack_.emplace_back(tensor(operand));
    } else {
      const List& list = program_.lists_[operand.index];
      list.numbers == c10::TypeKind::AnyType ? push_list(list) : push_numbers(list);
    }
  }

  void push_list(const List& list) {
    if (list.optional_items) {
      c10::List<std::optional<at::Tensor>> tensors;
      tensors.reserve(list.items.size());
      for (const auto& item : list.items) {
        tensors.push_back(is_none(item) ? std::nullopt : std::optional<at::Tensor>(tensor(item)));
      }
      stack_.emplace_back(std::move(tensors));
    } else {
      c10::List<at::Tensor> tensors;
      tensors.reserve(list.items.size());
      for (const auto& item : list.items) tensors.push_back(tensor(item));
      stack_.emplace_back(std::move(tensors));
    }
  }

  c10::IValue number(const Operand& operand) const {
    if (operand.kind == Operand::Kind::Constant) return program_.constants_[operand.index];
    const c10::IValue& held = registers_[operand.index];
    return operand.kind == Operand::Kind::Number ? shapes::plain_number(held.toTensor()) : held;
  }

  void push_numbers(const List& list) {
    std::vector<c10::IValue> items;
    for (const auto& item : list.items) items.push_back(number(item));
    switch (list.numbers) {
      case c10::TypeKind::FloatType:
        return stack_.push_back(typed_list<double>(items));
      case c10::TypeKind::NumberType:
        return stack_.push_back(typed_list<at::Scalar>(items));
      case c10::TypeKind::BoolType:
        return stack_.push_back(typed_list<bool>(items));
      default:
        return stack_.push_back(typed_list<int64_t>(items));
    }
  }

  C10_ALWAYS_INLINE void store(const Place& place, c10::IValue& value) {
    if (place.is_list) return store_list(place, value);
    if (place.index == kDropped) return;
    if (place.is_base && skips_autograd) forget_inner_base(value.toTensor());
    if (C10_UNLIKELY(place.is_number && value.isTensor()))
      registers_[place.index] = shapes::plain_number(value.toTensor());
    else
      registers_[place.index] = std::move(value);
  }

  C10_NOINLINE void store_list(const Place& place, c10::IValue& value) {
    const auto& places = program_.list_places_[place.index];
    auto tensors = std::move(value).toTensorList();
    TORCH_CHECK(tensors.size() == places.size(), "an op returned ", tensors.size(), " tensors where ", places.size(),
                " were traced");
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] != kDropped) registers_[places[i]] = tensors.extract(i);
    }
  }

  const ReferenceExecutable& program_;
  torch::jit::Stack stack_;
  c10::SmallVector<c10::IValue, 16> registers_;
};

std::vector<at::Tensor> ReferenceExecutable::run(std::vector<at::Tensor> inputs) const {
  uint32_t index = kNoNode;
  try {
    TORCH_CHECK(inputs.size() == inputs_.size(), graph_->name, " takes ", inputs_.size(), " tensors, not ",
                inputs.size());
    auto need = may_skip_autograd_ ? autograd_need(inputs) : AutogradNeed::Always;
    graph::StateSwitcher state;
    std::optional<OpenRanges> ranges;
    if (has_ranges_ && observe::ProfiledRange::is_recorded()) ranges.emplace(*graph_);
    Run run(*this);
    run.take_inputs(inputs);
    for (const auto& step : steps_) {
      ++index;
      if (step.switches_state) {
        const auto& wanted = graph_->states[step.state];
        bool skip = need == AutogradNeed::Never || (need == AutogradNeed::InGradMode && !wanted.grad_mode);
        state.enter(wanted, skip);
        run.skips_autograd = skip;
      }
      if (ranges) ranges->enter(graph_->nodes[index].range);
      run.step(step);
    }
    state.end(graph_->autocast_region_at_end);
    return run.outputs();
  } catch (...) {
    last_failed = {graph_, index};
    throw;
  }
}

Failure ReferenceExecutable::failure() const {
  if (last_failed.graph.lock() != graph_) return {};
  if (last_failed.node == kNoNode) return {Failure::Wrote::Nothing};
  return {Failure::Wrote::BeforeNode, last_failed.node};
}

std::unique_ptr<Executable> compile_reference(std::shared_ptr<const graph::Graph> graph) {
  return std::make_unique<ReferenceExecutable>(std::move(graph));
}

}  // namespace stator::backend
