#include <c10/util/SmallVector.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>

#include "core/backend/reference/autograd_skip.h"
#include "core/backend/reference/executor.h"
#include "core/graph/control_ops.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"

namespace stator::backend {
namespace {

bool has_optional_items(const c10::Type& list_type) {
  const auto* list = list_type.castRaw<c10::ListType>();
  return list != nullptr && list->getElementType()->kind() == c10::TypeKind::OptionalType;
}

/// The element type of a list of numbers; null for other types.
c10::TypePtr number_element(const c10::TypePtr& type) {
  if (const auto* optional = type->castRaw<c10::OptionalType>()) return number_element(optional->getElementType());
  const auto* list = type->castRaw<c10::ListType>();
  return list != nullptr && graph::is_number_type(*list->getElementType()) ? list->getElementType() : nullptr;
}

/// A constant that is a plain number: its type and its bits.
struct Number {
  char kind;
  uint64_t bits;
  bool operator==(const Number&) const = default;
};
struct NumberHash {
  size_t operator()(const Number& number) const { return std::hash<uint64_t>()(number.bits * 8 + number.kind); }
};

std::optional<Number> number_in(const c10::IValue& value) {
  if (value.isNone()) return Number{0, 0};
  if (value.isBool()) return Number{1, value.toBool() ? 1u : 0u};
  if (value.isInt()) return Number{2, static_cast<uint64_t>(value.toInt())};
  if (value.isDouble()) return Number{3, std::bit_cast<uint64_t>(value.toDouble())};
  return std::nullopt;
}

}  // namespace

/// Builds the steps of a program. A register is reused after its value is dead, and equal numbers are stored
/// once, so that the run of a long graph fits in the CPU caches.
class ReferenceExecutable::Builder {
 public:
  explicit Builder(ReferenceExecutable& program)
      : program_(program),
        graph_(*program.graph_),
        last_(graph::last_uses(graph_)),
        register_of_(graph_.values.size(), kDropped) {}

  void build() {
    for (auto id : graph_.inputs) {
      bool dead = last_[id] == graph::kNever;
      program_.inputs_.push_back({false, holds_number(id), false, dead ? kDropped : hold(id)});
    }
    program_.steps_.reserve(graph_.nodes.size());
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      add_step(n);
      program_.has_ranges_ = program_.has_ranges_ || graph_.nodes[n].range != 0;
    }
    program_.num_registers_ = held_.size();
    add_outputs();
  }

 private:
  void add_step(uint32_t index) {
    const auto& node = graph_.nodes[index];
    const auto& schema = node.op.schema();
    auto& operands = program_.operands_;
    auto& places = program_.places_;
    Step step{node.op,
              static_cast<uint32_t>(operands.size()),
              0,
              static_cast<uint32_t>(places.size()),
              static_cast<uint32_t>(node.results.size()),
              node.state,
              program_.steps_.empty() || program_.steps_.back().state != node.state,
              kNoControl};
    for (size_t i = 0; i < node.args.size(); ++i) {
      if (node.args[i].kind == graph::Argument::Kind::Graph) continue;
      operands.push_back(make_operand(node.args[i], schema.arguments()[i].real_type()));
    }
    step.num_operands = static_cast<uint32_t>(operands.size()) - step.first_operand;
    if (graph::is_control_op(node.op)) {
      step.control = static_cast<uint32_t>(program_.controls_.size());
      program_.controls_.push_back(make_control_node(node));
    }
    move_last_reads(step, node, index);
    release_dead(node, index);
    auto place_of = [&](graph::ValueId id) {
      bool read_later = id != graph::kNoValue && last_[id] != graph::kNever && last_[id] > index;
      return read_later ? hold(id) : kDropped;
    };
    for (const auto& result : node.results) {
      if (!result.is_list) {
        const graph::ValueId id = result.values[0];
        places.push_back({false, holds_number(id), makes_base(id, index), place_of(id)});
        continue;
      }
      places.push_back({true, false, false, static_cast<uint32_t>(program_.list_places_.size())});
      auto& list = program_.list_places_.emplace_back();
      for (auto id : result.values) list.push_back(place_of(id));
    }
    program_.stack_size_ = std::max({program_.stack_size_, node.args.size(), node.results.size()});
    program_.steps_.push_back(step);
  }

  /// Whether the node makes this tensor, and it is not a view. Not where the graph has no fakes any more.
  bool makes_base(graph::ValueId id, uint32_t node) const {
    if (id == graph::kNoValue || holds_number(id)) return false;
    const graph::ValueInfo& value = graph_.values[id];
    return value.producer == node && value.fake.defined() && !value.fake.is_view();
  }

  void add_outputs() {
    auto& outputs = program_.outputs_;
    for (auto id : graph_.outputs)
      outputs.push_back({holds_number(id) ? Operand::Kind::Boxed : Operand::Kind::Copy, register_of_[id]});
    std::vector<bool> taken(held_.size());
    for (auto output = outputs.rbegin(); output != outputs.rend(); ++output) {
      if (!taken[output->index] && output->kind == Operand::Kind::Copy) output->kind = Operand::Kind::Move;
      taken[output->index] = true;
    }
  }

  Operand make_operand(const graph::Argument& argument, const c10::TypePtr& type) {
    switch (argument.kind) {
      case graph::Argument::Kind::Value:
        return {value_operand(argument.value, *type), register_of_[argument.value]};
      case graph::Argument::Kind::Constant:
        return {Operand::Kind::Constant, constant(argument.constant)};
      case graph::Argument::Kind::List:
      case graph::Argument::Kind::Graph:
        break;
    }
    const auto element = number_element(type);
    List list{has_optional_items(*type), element ? element->kind() : c10::TypeKind::AnyType, {}};
    for (const auto& item : argument.items) list.items.push_back(make_operand(item, element ? element : type));
    program_.lists_.push_back(std::move(list));
    return {Operand::Kind::List, static_cast<uint32_t>(program_.lists_.size() - 1)};
  }

  bool holds_number(graph::ValueId id) const {
    return id != graph::kNoValue && graph::holds_number(graph_.values[id].type);
  }

  /// How a value is given to an argument, or to an item of a list of tensors.
  Operand::Kind value_operand(graph::ValueId id, const c10::Type& type) const {
    if (graph::is_number_type(type)) return holds_number(id) ? Operand::Kind::Copy : Operand::Kind::Number;
    return holds_number(id) ? Operand::Kind::Boxed : Operand::Kind::Copy;
  }

  uint32_t constant(const c10::IValue& value) {
    auto next = static_cast<uint32_t>(program_.constants_.size());
    if (auto number = number_in(value)) {
      auto [known, is_new] = numbers_.try_emplace(*number, next);
      if (!is_new) return known->second;
    }
    program_.constants_.push_back(value);
    return next;
  }

  // The last read of a register in the last node that needs it moves the tensor out. So does a node that returns the
  // value in place, because the return fills the register again.
  void move_last_reads(const Step& step, const graph::Node& node, uint32_t index) {
    // Several `out` arguments come back as references to them, which torch may read after it has dropped its operands.
    if (node.results.size() > 1 && node.op.schema().is_mutable()) return;
    c10::SmallVector<uint32_t, 8> kept;  // registers that must stay, or are moved by a later operand
    auto visit = [&](Operand& operand) {
      if (operand.kind != Operand::Kind::Copy) return;
      graph::ValueId value = held_[operand.index];
      bool returned = false;
      graph::for_each_result(node, [&](graph::ValueId id) { returned = returned || id == value; });
      if ((last_[value] == index || returned) && std::find(kept.begin(), kept.end(), operand.index) == kept.end()) {
        operand.kind = Operand::Kind::Move;
        kept.push_back(operand.index);
      }
    };
    for (uint32_t i = step.num_operands; i-- > 0;) {
      auto& operand = program_.operands_[step.first_operand + i];
      if (operand.kind == Operand::Kind::List) {
        auto& items = program_.lists_[operand.index].items;
        for (auto item = items.rbegin(); item != items.rend(); ++item) visit(*item);
      } else {
        visit(operand);
      }
    }
  }

  uint32_t hold(graph::ValueId id) {
    uint32_t& place = register_of_[id];
    if (place != kDropped) return place;
    if (free_.empty()) {
      place = static_cast<uint32_t>(held_.size());
      held_.push_back(id);
    } else {
      place = free_.back();
      free_.pop_back();
      held_[place] = id;
    }
    return place;
  }

  void release_dead(const graph::Node& node, uint32_t index) {
    auto release = [&](graph::ValueId id) {
      if (last_[id] != index || register_of_[id] == kDropped) return;
      free_.push_back(register_of_[id]);
      register_of_[id] = kDropped;
    };
    for (const auto& argument : node.args) graph::for_each_value(argument, release);
    graph::for_each_result(node, release);
  }

  ReferenceExecutable& program_;
  const graph::Graph& graph_;
  std::vector<uint32_t> last_;
  std::vector<uint32_t> register_of_;  // by value; kDropped: no register
  std::vector<graph::ValueId> held_;   // by register
  std::vector<uint32_t> free_;
  std::unordered_map<Number, uint32_t, NumberHash> numbers_;  // number -> index in the constants
};

ReferenceExecutable::ReferenceExecutable(std::shared_ptr<const graph::Graph> graph)
    : graph_(std::move(graph)), may_skip_autograd_(autograd_is_passive(*graph_)) {
  graph::verify(*graph_);
  Builder(*this).build();
}

}  // namespace stator::backend
