#include "core/backend/reference/executor.h"

#include <ATen/core/List.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <limits>

#include "core/backend/reference/autograd_skip.h"
#include "core/graph/exec_state.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"

namespace stator::backend {
namespace {

constexpr uint32_t kDropped = std::numeric_limits<uint32_t>::max();

/// The latest run on this thread that threw. The graph is held weakly, so that its address means no other.
struct Failure {
  std::weak_ptr<const graph::Graph> graph;
  uint32_t node = kNoNode;
};
thread_local Failure last_failed;

bool has_optional_items(const c10::Type& list_type) {
  const auto* list = list_type.castRaw<c10::ListType>();
  return list != nullptr && list->getElementType()->kind() == c10::TypeKind::OptionalType;
}

}  // namespace

uint32_t failed_node() { return last_failed.node; }

std::optional<FailedOp> failed_op(const graph::Graph& graph) {
  if (last_failed.graph.lock().get() != &graph || last_failed.node >= graph.nodes.size()) return std::nullopt;
  const auto& node = graph.nodes[last_failed.node];
  return FailedOp{last_failed.node, node.op.operator_name(), graph.call_chain(node.location)};
}

ReferenceExecutable::ReferenceExecutable(std::shared_ptr<const graph::Graph> graph)
    : graph_(std::move(graph)), may_skip_autograd_(autograd_is_passive(*graph_)) {
  graph::verify(*graph_);
  auto last = graph::last_uses(*graph_);
  for (auto id : graph_->inputs) {
    inputs_.push_back({last[id] == graph::kNever ? Operand::Kind::Move : Operand::Kind::Copy, id});
  }
  steps_.reserve(graph_->nodes.size());
  for (uint32_t n = 0; n < graph_->nodes.size(); ++n) add_step(n, last);
  std::vector<bool> taken(graph_->values.size());
  for (auto id : graph_->outputs) outputs_.push_back({Operand::Kind::Copy, id});
  for (auto output = outputs_.rbegin(); output != outputs_.rend(); ++output) {
    if (!taken[output->index]) output->kind = Operand::Kind::Move;
    taken[output->index] = true;
  }
}

void ReferenceExecutable::add_step(uint32_t index, const std::vector<uint32_t>& last) {
  const auto& node = graph_->nodes[index];
  const auto& schema = node.op.schema();
  Step step{node.op,
            static_cast<uint32_t>(operands_.size()),
            static_cast<uint32_t>(node.args.size()),
            static_cast<uint32_t>(places_.size()),
            static_cast<uint32_t>(node.results.size()),
            node.state,
            steps_.empty() || steps_.back().state != node.state};
  for (size_t i = 0; i < node.args.size(); ++i) {
    operands_.push_back(make_operand(node.args[i], schema.arguments()[i].real_type()));
  }
  move_last_reads(step, node, index, last);
  auto place_of = [&](graph::ValueId id) {
    bool read_later = id != graph::kNoValue && last[id] != graph::kNever && last[id] > index;
    return read_later ? id : kDropped;
  };
  for (const auto& result : node.results) {
    if (!result.is_list) {
      places_.push_back({false, place_of(result.values[0])});
      continue;
    }
    places_.push_back({true, static_cast<uint32_t>(list_places_.size())});
    auto& list = list_places_.emplace_back();
    for (auto id : result.values) list.push_back(place_of(id));
  }
  stack_size_ = std::max({stack_size_, node.args.size(), node.results.size()});
  steps_.push_back(step);
}

ReferenceExecutable::Operand ReferenceExecutable::make_operand(const graph::Argument& argument,
                                                               const c10::TypePtr& type) {
  switch (argument.kind) {
    case graph::Argument::Kind::Value:
      return {Operand::Kind::Copy, argument.value};
    case graph::Argument::Kind::Constant:
      constants_.push_back(argument.constant);
      return {Operand::Kind::Constant, static_cast<uint32_t>(constants_.size() - 1)};
    case graph::Argument::Kind::List:
      break;
  }
  List list{has_optional_items(*type), {}};
  for (const auto& item : argument.items) {
    list.items.push_back(make_operand(item, type));
  }
  lists_.push_back(std::move(list));
  return {Operand::Kind::List, static_cast<uint32_t>(lists_.size() - 1)};
}

// The last read of a register inside the last node that needs it takes the tensor out. A node that returns the value
// again (in place) takes it too: the return fills the register anew.
void ReferenceExecutable::move_last_reads(const Step& step, const graph::Node& node, uint32_t index,
                                          const std::vector<uint32_t>& last) {
  c10::SmallVector<uint32_t, 8> kept;  // registers that must stay, or were taken by a later operand
  auto visit = [&](Operand& operand) {
    if (operand.kind != Operand::Kind::Copy) return;
    bool returned = false;
    graph::for_each_result(node, [&](graph::ValueId id) { returned = returned || id == operand.index; });
    if ((last[operand.index] == index || returned) &&
        std::find(kept.begin(), kept.end(), operand.index) == kept.end()) {
      operand.kind = Operand::Kind::Move;
      kept.push_back(operand.index);
    }
  };
  for (uint32_t i = step.num_operands; i-- > 0;) {
    auto& operand = operands_[step.first_operand + i];
    if (operand.kind == Operand::Kind::List) {
      auto& items = lists_[operand.index].items;
      for (auto item = items.rbegin(); item != items.rend(); ++item) visit(*item);
    } else {
      visit(operand);
    }
  }
}

/// One run's registers. Local to the call, so that runs on different threads never meet.
class ReferenceExecutable::Run {
 public:
  explicit Run(const ReferenceExecutable& program) : program_(program), registers_(program.graph_->values.size()) {
    stack_.reserve(program.stack_size_);
  }

  void take_inputs(std::vector<at::Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto tensor = std::move(inputs[i]);
      const auto& operand = program_.inputs_[i];
      if (operand.kind != Operand::Kind::Move) registers_[operand.index] = std::move(tensor);
    }
  }

  void step(const Step& step) {
    for (uint32_t i = 0; i < step.num_operands; ++i) push(program_.operands_[step.first_operand + i]);
    step.op.callBoxed(&stack_);
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
        return std::move(registers_[operand.index]);
      case Operand::Kind::Copy:
        return registers_[operand.index];
      default:
        return program_.constants_[operand.index].toTensor();
    }
  }

  bool is_none(const Operand& operand) const {
    return operand.kind == Operand::Kind::Constant && program_.constants_[operand.index].isNone();
  }

  void push(const Operand& operand) {
    if (operand.kind == Operand::Kind::Constant) {
      stack_.push_back(program_.constants_[operand.index]);
    } else if (operand.kind == Operand::Kind::List) {
      push_list(program_.lists_[operand.index]);
    } else {
      stack_.emplace_back(tensor(operand));
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

  void store(const Place& place, c10::IValue& value) {
    if (!place.is_list) {
      if (place.index != kDropped) registers_[place.index] = std::move(value).toTensor();
      return;
    }
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
  c10::SmallVector<at::Tensor, 16> registers_;
};

std::vector<at::Tensor> ReferenceExecutable::run(std::vector<at::Tensor> inputs) const {
  uint32_t index = kNoNode;
  try {
    TORCH_CHECK(inputs.size() == inputs_.size(), graph_->name, " takes ", inputs_.size(), " tensors, not ",
                inputs.size());
    auto need = may_skip_autograd_ ? autograd_need(inputs) : AutogradNeed::Always;
    graph::StateSwitcher state;
    Run run(*this);
    run.take_inputs(inputs);
    for (const auto& step : steps_) {
      ++index;
      if (step.switches_state) {
        const auto& wanted = graph_->states[step.state];
        bool skip = need == AutogradNeed::Never || (need == AutogradNeed::InGradMode && !wanted.grad_mode);
        state.enter(wanted, skip);
      }
      run.step(step);
    }
    return run.outputs();
  } catch (...) {
    last_failed = {graph_, index};
    throw;
  }
}

std::unique_ptr<Executable> compile_reference(std::shared_ptr<const graph::Graph> graph) {
  return std::make_unique<ReferenceExecutable>(std::move(graph));
}

}  // namespace stator::backend
