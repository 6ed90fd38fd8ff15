#include "core/tracer/size_inputs.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "core/graph/uses.h"
#include "core/shapes/number_ops.h"
#include "core/tracer/recorder.h"

namespace stator::tracer {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;
using shapes::Ex;

/// The backed symbol that a size equals, by the equalities that the capture found; null for constants and other
/// expressions.
Ex backed_symbol(const shapes::Expr& size) {
  if (!size) return nullptr;
  Ex simple = size->env->simplify(size);
  return simple->op == shapes::Op::Symbol && simple->symbol->is_backed ? simple : nullptr;
}

class SizeLifter {
 public:
  explicit SizeLifter(graph::Graph& graph) : graph_(graph), latest_(graph.values.size(), graph::kNoDefinition) {}

  SizeInputs run() {
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i)
      each_symbol(graph_.inputs[i], [&](Ex symbol, uint32_t dim) { known_.try_emplace(symbol, Known{{i, dim}}); });
    SizeInputs made;
    const bool has_numbers = std::any_of(graph_.inputs.begin(), graph_.inputs.end(),
                                         [&](ValueId id) { return graph::holds_number(graph_.values[id].type); });
    if (known_.empty() && !has_numbers) {
      for (uint32_t i = 0; i < graph_.inputs.size(); ++i) made.kept.push_back(i);
      return made;
    }
    for (ValueId id : graph_.inputs) latest_[id] = graph_.values[id].definition;
    remove_reads();
    made.kept = graph_.drop_unused_inputs();
    for (ValueId id : graph_.inputs) each_symbol(id, [&](Ex symbol, uint32_t) { use(symbol); });
    std::vector<ValueId> inputs;
    for (Ex symbol : used_) {
      inputs.push_back(value_of(symbol));
      made.sizes.push_back(known_.at(symbol).from);
    }
    if (has_numbers) take_ints(inputs, made);
    graph_.inputs.insert(graph_.inputs.begin(), inputs.begin(), inputs.end());
    if (has_numbers) read_floats();
    return made;
  }

 private:
  struct Known {
    SizeTag from;
    ValueId value = kNoValue;
    bool is_used = false;
  };

  template <class Visit>
  void each_symbol(ValueId id, const Visit& visit) const {
    const graph::DefinitionId definition = graph_.values[id].definition;
    if (definition == graph::kNoDefinition || !graph_.definitions.has_symbols(definition)) return;
    const graph::TensorMeta meta = graph_.definitions.meta(definition);
    for (uint32_t dim = 0; dim < meta.sizes.size(); ++dim)
      if (Ex symbol = backed_symbol(meta.sizes[dim].symbol)) visit(symbol, dim);
  }

  void use(Ex symbol) {
    Known& known = known_.at(symbol);
    if (!known.is_used) used_.push_back(symbol);
    known.is_used = true;
  }

  /// The symbol whose value the node reads from a tensor's size; null for other nodes.
  Ex read_symbol(const graph::Node& node) const {
    if (node.op != shapes::size_op()) return nullptr;
    const graph::DefinitionId definition = latest_[node.args[0].value];
    if (definition == graph::kNoDefinition) return nullptr;
    const graph::TensorMeta meta = graph_.definitions.meta(definition);
    Ex symbol = backed_symbol(meta.sizes.at(static_cast<size_t>(node.args[1].constant.toInt())).symbol);
    return symbol != nullptr && known_.contains(symbol) ? symbol : nullptr;
  }

  /// Moves the int inputs from `graph_.inputs` to the end of `first`, after the sizes.
  void take_ints(std::vector<ValueId>& first, SizeInputs& made) {
    std::vector<ValueId> others;
    std::vector<uint32_t> kept;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId id = graph_.inputs[i];
      const bool is_int = graph_.values[id].type == graph::ValueType::Integer;
      (is_int ? first : others).push_back(id);
      if (is_int)
        made.sizes.push_back({made.kept[i], kNumberTag});
      else
        kept.push_back(made.kept[i]);
    }
    graph_.inputs = std::move(others);
    made.kept = std::move(kept);
  }

  /// Replaces each float input by a tensor input and a node that reads the float from it.
  void read_floats() {
    std::vector<graph::Node> reads;
    for (ValueId& input : graph_.inputs) {
      if (graph_.values[input].type != graph::ValueType::Float) continue;
      const ValueId read = std::exchange(input, static_cast<ValueId>(graph_.values.size()));
      graph::ValueInfo& info = graph_.values.emplace_back();
      info.name = std::exchange(graph_.values[read].name, "");
      info.fake = number_fake(shapes::Type::Float);
      info.definition = graph_.definitions.add(input, info.fake);
      graph_.values[read].producer = static_cast<uint32_t>(reads.size());
      graph::Node& node = reads.emplace_back(graph::Node{shapes::item_op(), {Argument::of_value(input)}, {}});
      node.results.push_back({false, {read}});
    }
    if (reads.empty()) return;
    for (graph::ValueInfo& info : graph_.values)
      if (info.producer != UINT32_MAX && !is_result(reads, info)) info.producer += static_cast<uint32_t>(reads.size());
    graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(reads.begin()),
                        std::make_move_iterator(reads.end()));
  }

  bool is_result(const std::vector<graph::Node>& reads, const graph::ValueInfo& info) const {
    return info.producer < reads.size() && &graph_.values[reads[info.producer].results[0].values[0]] == &info;
  }

  void remove_reads() {
    std::vector<graph::Node> left;
    left.reserve(graph_.nodes.size());
    for (graph::Node& node : graph_.nodes) {
      if (Ex symbol = read_symbol(node)) {
        use(symbol);
        replace(symbol, node.results[0].values[0]);
        continue;
      }
      for (Argument& argument : node.args) rename(argument);
      const auto index = static_cast<uint32_t>(left.size());
      graph::for_each_result(node, [&](ValueId id) {
        if (graph_.values[id].producer == static_cast<uint32_t>(&node - graph_.nodes.data()))
          graph_.values[id].producer = index;
      });
      for (uint32_t i = 0; i < node.num_definitions; ++i)
        latest_[graph_.definitions.value_of(node.first_definition + i)] = node.first_definition + i;
      left.push_back(std::move(node));
    }
    graph_.nodes = std::move(left);
    for (ValueId& id : graph_.outputs)
      if (auto found = replaced_.find(id); found != replaced_.end()) id = found->second;
  }

  /// Makes the value the input for the symbol. If the symbol has an input already, that one replaces the value.
  void replace(Ex symbol, ValueId value) {
    Known& known = known_.at(symbol);
    graph_.values[value].producer = UINT32_MAX;
    if (known.value == kNoValue) {
      known.value = value;
      graph_.values[value].name = symbol->symbol->name;
    } else {
      replaced_[value] = known.value;
    }
  }

  void rename(Argument& argument) {
    if (auto found = replaced_.find(argument.value); argument.kind == Argument::Kind::Value && found != replaced_.end())
      argument.value = found->second;
    for (Argument& item : argument.items) rename(item);
  }

  ValueId value_of(Ex symbol) {
    Known& known = known_.at(symbol);
    if (known.value != kNoValue) return known.value;
    graph::ValueInfo& info = graph_.values.emplace_back();
    info.name = symbol->symbol->name;
    info.fake = number_fake(shapes::Type::Int);
    info.type = graph::ValueType::Integer;
    info.number = symbol;
    return known.value = static_cast<ValueId>(graph_.values.size() - 1);
  }

  graph::Graph& graph_;
  std::vector<graph::DefinitionId> latest_;  // by value: the newest one before the current node
  std::unordered_map<Ex, Known> known_;
  std::vector<Ex> used_;  // in the order of their first use
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

SizeInputs add_size_inputs(graph::Graph& graph) { return SizeLifter(graph).run(); }

}  // namespace stator::tracer
