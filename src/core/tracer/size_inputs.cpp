#include "core/tracer/size_inputs.h"

#include <unordered_map>

#include "core/graph/uses.h"
#include "core/shapes/number_ops.h"
#include "core/tracer/recorder.h"

namespace stator::tracer {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;
using shapes::Ex;

/// The symbol that a size is, with the equalities that the capture found; null for constants and other expressions.
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
    if (known_.empty()) {
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
    graph_.inputs.insert(graph_.inputs.begin(), inputs.begin(), inputs.end());
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

  /// The symbol that the node reads off a tensor; null for other nodes.
  Ex read_symbol(const graph::Node& node) const {
    if (node.op != shapes::size_op()) return nullptr;
    const graph::DefinitionId definition = latest_[node.args[0].value];
    if (definition == graph::kNoDefinition) return nullptr;
    const graph::TensorMeta meta = graph_.definitions.meta(definition);
    Ex symbol = backed_symbol(meta.sizes.at(static_cast<size_t>(node.args[1].constant.toInt())).symbol);
    return symbol != nullptr && known_.contains(symbol) ? symbol : nullptr;
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

  /// The value becomes the input of the symbol, or an unused one if the symbol has an input already.
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
  std::vector<graph::DefinitionId> latest_;  // by value, before the node that is looked at
  std::unordered_map<Ex, Known> known_;
  std::vector<Ex> used_;  // in the order of their first use
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

SizeInputs add_size_inputs(graph::Graph& graph) { return SizeLifter(graph).run(); }

}  // namespace stator::tracer
