#include "core/tracer/part.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/graph/aliasing.h"

namespace stator::tracer {
namespace {

using graph::kNoValue;
using graph::ValueId;

class PartBuilder {
 public:
  PartBuilder(const graph::Graph& outer, Tracer::Part& part, uint32_t mark, uint32_t state)
      : outer_(outer), part_(part), mark_(mark) {
    part_.graph = std::make_shared<graph::Graph>();
    part_.graph->name = outer.name;
    part_.graph->intern_state(outer.states[state]);
    for (size_t n = mark; n < outer.nodes.size(); ++n)
      graph::for_each_written(outer.nodes[n], [&](ValueId id) { written_.insert(id); });
  }

  void add(uint32_t index) {
    const auto& node = outer_.nodes[index];
    std::vector<graph::Argument> args;
    for (const auto& arg : node.args) args.push_back(operand(arg));
    const auto copy = static_cast<uint32_t>(part_.graph->nodes.size());
    part_.graph->add_node(node.op).args = std::move(args);
    part_.graph->nodes[copy].state = part_.graph->intern_state(outer_.states[node.state]);
    part_.graph->nodes[copy].location = location(node.location);
    for (const auto& result : node.results) {
      graph::Result made{result.is_list, {}};
      for (ValueId id : result.values) made.values.push_back(result_of(index, copy, id));
      part_.graph->nodes[copy].results.push_back(std::move(made));
    }
    for (uint32_t i = 0; i < node.num_definitions; ++i) {
      const graph::DefinitionId definition = node.first_definition + i;
      const ValueId id = ids_.at(outer_.definitions.value_of(definition));
      part_.graph->define(copy, id, outer_.definitions.meta(definition));
    }
  }

  void add_output(const Output& output) {
    if (!made_.contains(output.first)) return;
    part_.graph->outputs.push_back(ids_.at(output.first));
    part_.made.push_back(output.second);
  }

 private:
  graph::Argument operand(const graph::Argument& arg) {
    graph::Argument copy = arg;
    if (arg.kind == graph::Argument::Kind::Value) copy.value = value(arg.value);
    for (auto& item : copy.items) item = operand(item);
    return copy;
  }

  /// A value that nodes of the part use; an input if none of them made it.
  ValueId value(ValueId id) {
    const auto [place, fresh] = ids_.try_emplace(id);
    if (!fresh) return place->second;
    const graph::ValueInfo& original = outer_.values[id];
    const ValueId input = place->second = part_.graph->add_input("input" + std::to_string(part_.inputs.size()), {});
    graph::ValueInfo& copy = part_.graph->values[input];
    copy.fake = original.fake;
    copy.type = original.type;
    if (copy.type == graph::ValueType::Tensor) copy.definition = part_.graph->definitions.add(input, meta_at_start(id));
    part_.inputs.push_back(original.fake);
    return input;
  }

  /// The metadata of a value before the part runs.
  graph::TensorMeta meta_at_start(ValueId id) {
    if (!written_.contains(id)) return graph::TensorMeta::of(outer_.values[id].fake);
    graph::DefinitionId latest = outer_.values[id].definition;
    for (uint32_t n = 0; n < mark_; ++n) {
      const auto definition = outer_.definition_of(n, id);
      if (definition != graph::kNoDefinition) latest = definition;
    }
    return outer_.definitions.meta(latest);
  }

  ValueId result_of(uint32_t index, uint32_t copy, ValueId id) {
    if (id == kNoValue) return id;
    if (outer_.values[id].producer != index) return value(id);
    made_.insert(id);
    const ValueId result = ids_[id] = part_.graph->add_result_value(copy, {});
    part_.graph->values[result].fake = outer_.values[id].fake;
    part_.graph->values[result].type = outer_.values[id].type;
    return result;
  }

  /// Copies a location and its callers.
  uint32_t location(uint32_t index) {
    if (index == 0) return 0;
    if (auto known = locations_.find(index); known != locations_.end()) return known->second;
    graph::Location copy = outer_.locations[index];
    copy.caller = location(copy.caller);
    return locations_[index] = part_.graph->add_location(std::move(copy));
  }

  const graph::Graph& outer_;
  Tracer::Part& part_;
  const uint32_t mark_;
  std::unordered_set<ValueId> written_;               // by nodes of the part
  std::unordered_map<ValueId, ValueId> ids_;          // value of the outer graph -> value of the part
  std::unordered_set<ValueId> made_;                  // values of the outer graph that nodes of the part made
  std::unordered_map<uint32_t, uint32_t> locations_;  // location of the outer graph -> location of the part
};

}  // namespace

Tracer::Part copy_part(const graph::Graph& outer, size_t mark, const std::vector<Output>& outputs, uint32_t state) {
  Tracer::Part part;
  PartBuilder builder(outer, part, static_cast<uint32_t>(mark), state);
  for (size_t n = mark; n < outer.nodes.size(); ++n) builder.add(static_cast<uint32_t>(n));
  for (const Output& output : outputs) builder.add_output(output);
  return part;
}

}  // namespace stator::tracer
