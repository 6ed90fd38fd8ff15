#include "core/passes/regions.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/graph/aliasing.h"
#include "core/graph/uses.h"
#include "core/passes/effects.h"
#include "core/passes/simplify.h"

namespace stator::passes {

using graph::Argument;
using graph::DefinitionId;
using graph::Graph;
using graph::kNoDefinition;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

namespace {

/// The nodes of a call; `total` is less than the length if others stand between them.
struct Extent {
  uint32_t first = 0, last = 0, total = 0;
  uint32_t size() const { return last - first + 1; }
};

std::vector<Extent> find_extents(const Graph& graph) {
  std::vector<Extent> extents;
  std::unordered_map<uint32_t, size_t> known;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const uint32_t region = graph.nodes[n].region;
    if (region == 0) continue;
    const auto [found, is_new] = known.try_emplace(region, extents.size());
    if (is_new) extents.push_back({n, n, 0});
    Extent& extent = extents[found->second];
    extent.last = n;
    ++extent.total;
  }
  return extents;
}

bool has_plain_arguments(const std::vector<Argument>& arguments) {
  return std::all_of(arguments.begin(), arguments.end(), [](const Argument& argument) {
    if (argument.kind == Argument::Kind::Graph) return false;
    if (argument.kind == Argument::Kind::List) return has_plain_arguments(argument.items);
    if (argument.kind == Argument::Kind::Value || !argument.constant.isTensor()) return true;
    const at::Tensor& constant = argument.constant.toTensor();
    return !constant.defined() || constant.unsafeGetTensorImpl()->is_wrapped_number();
  });
}

/// Whether it is a dropout, or an attention with one, that drops nothing: it draws no random numbers then.
bool drops_nothing(const Node& node) {
  const std::string_view name = node.op.operator_name().name;
  const bool is_attention = name == "aten::scaled_dot_product_attention";
  if (name != "aten::dropout" && !is_attention) return false;
  auto constant = [&](const char* argument) -> const c10::IValue* {
    const auto index = node.op.schema().argumentIndexWithName(argument);
    if (!index || node.args[static_cast<size_t>(*index)].kind != Argument::Kind::Constant) return nullptr;
    return &node.args[static_cast<size_t>(*index)].constant;
  };
  const c10::IValue* probability = constant(is_attention ? "dropout_p" : "p");
  const c10::IValue* train = constant("train");
  return (probability && probability->isDouble() && probability->toDouble() == 0) ||
         (train && train->isBool() && !train->toBool());
}

/// Copies the nodes of a call into a graph of their own.
class Outliner {
 public:
  /// `definitions`: by value, the one that holds when the call begins.
  Outliner(const Graph& graph, const graph::Uses& uses, const std::unordered_set<ValueId>& outputs,
           const std::vector<DefinitionId>& definitions, const Extent& extent)
      : graph_(graph), uses_(uses), outputs_(outputs), definitions_(definitions), extent_(extent) {}

  /// Null if a sub-graph cannot stand for the call.
  std::shared_ptr<Graph> run(RegionCall& call) {
    if (!has_plain_nodes()) return nullptr;
    body_->name = "region";
    body_->states = {graph_.states[graph_.nodes[extent_.first].state]};
    for (uint32_t n = extent_.first; n <= extent_.last; ++n)
      if (!copy_node(n)) return nullptr;
    for (const ValueId id : made_)
      if (is_needed(id)) {
        body_->outputs.push_back(values_.at(id));
        call.results.push_back({id, defined_by_.at(id)});
      }
    call.first = extent_.first;
    call.count = extent_.size();
    call.operands = operands_;
    if (body_->outputs.empty() || !is_separate() || !follows_gradients()) return nullptr;
    body_->drop_fakes();
    return body_;
  }

 private:
  bool has_plain_nodes() const {
    if (extent_.total != extent_.size()) return false;
    const uint32_t state = graph_.nodes[extent_.first].state;
    const graph::ExecState& mode = graph_.states[state];
    if (mode.inference_mode || !mode.autocast.empty()) return false;
    return std::all_of(graph_.nodes.begin() + extent_.first, graph_.nodes.begin() + extent_.last + 1,
                       [&](const Node& node) {
                         return node.state == state && (!has_effects(graph_, node) || drops_nothing(node)) &&
                                !graph::changes_metadata(node) && has_plain_arguments(node.args);
                       });
  }

  bool is_made_inside(ValueId id) const {
    const uint32_t producer = graph_.values[id].producer;
    return producer != UINT32_MAX && producer >= extent_.first && producer <= extent_.last;
  }
  bool is_needed(ValueId id) const {
    if (outputs_.contains(id)) return true;
    const auto readers = uses_.of(id);
    return std::any_of(readers.begin(), readers.end(), [&](uint32_t node) { return node > extent_.last; });
  }

  /// The value's metadata is known and has no symbols.
  bool is_plain(ValueId id, DefinitionId definition) const {
    if (graph_.values[id].type != graph::ValueType::Tensor || definition == kNoDefinition) return false;
    if (graph_.definitions.has_symbols(definition)) return false;
    const graph::TensorMeta meta = graph_.definitions.meta(definition);
    if (meta.strides.size() != meta.sizes.size()) return false;
    // The metadata does not tell which tensors are lazily conjugated or negated.
    const at::Tensor& fake = graph_.values[id].fake;
    return !at::isComplexType(meta.dtype) && !(fake.defined() && fake.is_neg());
  }

  ValueId copy_value(ValueId id) {
    if (const auto known = values_.find(id); known != values_.end()) return known->second;
    const auto copy = static_cast<ValueId>(body_->values.size());
    graph::ValueInfo& info = body_->values.emplace_back();
    info.fake = graph_.values[id].fake;
    info.type = graph_.values[id].type;
    values_.emplace(id, copy);
    if (is_made_inside(id)) {
      info.name = graph_.values[id].name;
      info.producer = graph_.values[id].producer - extent_.first;
      made_.push_back(id);
      return copy;
    }
    is_plain_ = is_plain_ && is_plain(id, definitions_[id]);
    if (!is_plain_) return copy;
    info.name = "operand_" + std::to_string(operands_.size());
    info.definition = body_->definitions.add(copy, graph_.definitions.meta(definitions_[id]));
    body_->inputs.push_back(copy);
    operands_.push_back(id);
    return copy;
  }

  void copy_values(std::vector<Argument>& arguments) {
    for (Argument& argument : arguments) {
      if (argument.kind == Argument::Kind::Value) argument.value = copy_value(argument.value);
      copy_values(argument.items);
    }
  }

  bool copy_node(uint32_t index) {
    const Node& node = graph_.nodes[index];
    const auto place = static_cast<uint32_t>(body_->nodes.size());
    Node copy = node;
    copy.state = copy.range = copy.region = 0;
    copy.first_definition = copy.num_definitions = 0;
    copy_values(copy.args);
    for (graph::Result& result : copy.results)
      for (ValueId& id : result.values)
        if (id != kNoValue) id = copy_value(id);
    body_->nodes.push_back(std::move(copy));
    for (uint32_t i = 0; i < node.num_definitions && is_plain_; ++i) {
      const DefinitionId definition = node.first_definition + i;
      const ValueId id = graph_.definitions.value_of(definition);
      const auto known = values_.find(id);
      is_plain_ = known != values_.end() && is_plain(id, definition);
      if (!is_plain_) break;
      body_->define(place, known->second, graph_.definitions.meta(definition));
      defined_by_[id] = index;
    }
    graph::for_each_result(
        node, [&](ValueId id) { is_plain_ = is_plain_ && (!is_made_inside(id) || defined_by_.contains(id)); });
    return is_plain_;
  }

  /// It writes to no operand, and no result shares memory with an operand or another result.
  bool is_separate() const {
    const graph::MemoryGroups groups(*body_);
    std::unordered_set<uint32_t> taken;
    for (const ValueId id : body_->inputs) taken.insert(groups.of(id));
    bool is_separate = true;
    for (const Node& node : body_->nodes)
      graph::for_each_written(node, [&](ValueId id) { is_separate = is_separate && !taken.contains(groups.of(id)); });
    return is_separate && std::all_of(body_->outputs.begin(), body_->outputs.end(),
                                      [&](ValueId id) { return taken.insert(groups.of(id)).second; });
  }

  /// Torch's operator gives gradients to all results if an operand has them.
  bool follows_gradients() const {
    auto requires_grad = [&](DefinitionId definition) { return graph_.definitions.meta(definition).requires_grad; };
    const bool follows = body_->states[0].grad_mode && std::any_of(operands_.begin(), operands_.end(), [&](ValueId id) {
                           return requires_grad(definitions_[id]);
                         });
    return std::all_of(made_.begin(), made_.end(), [&](ValueId id) {
      return !is_needed(id) || requires_grad(graph_.definition_of(defined_by_.at(id), id)) == follows;
    });
  }

  const Graph& graph_;
  const graph::Uses& uses_;
  const std::unordered_set<ValueId>& outputs_;
  const std::vector<DefinitionId>& definitions_;
  const Extent extent_;
  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
  std::unordered_map<ValueId, ValueId> values_;  // by value of the graph: that of the body
  std::unordered_map<ValueId, uint32_t> defined_by_;
  std::vector<ValueId> made_, operands_;
  bool is_plain_ = true;
};

/// Finds the body that equals another one.
class Bodies {
 public:
  std::shared_ptr<Graph> unique(std::shared_ptr<Graph> body) {
    auto& alike = known_[{body->nodes.size(), body->inputs.size(), body->outputs.size()}];
    for (const auto& other : alike)
      if (find_difference(*other, *body).empty()) return other;
    alike.push_back(body);
    return body;
  }

 private:
  std::map<std::tuple<size_t, size_t, size_t>, std::vector<std::shared_ptr<Graph>>> known_;
};

}  // namespace

std::vector<RegionCall> shared_regions(const Graph& graph) {
  const std::vector<Extent> extents = find_extents(graph);
  if (extents.size() < 2) return {};
  const graph::Uses uses(graph);
  const std::unordered_set<ValueId> outputs(graph.outputs.begin(), graph.outputs.end());
  std::vector<DefinitionId> definitions(graph.values.size(), kNoDefinition);
  for (const ValueId id : graph.inputs) definitions[id] = graph.values[id].definition;
  std::vector<RegionCall> calls;
  Bodies bodies;
  std::unordered_map<const Graph*, size_t> counts;
  uint32_t seen = 0;
  for (const Extent& extent : extents) {
    for (; seen < extent.first; ++seen) {
      const Node& node = graph.nodes[seen];
      for (DefinitionId id = node.first_definition; id < node.first_definition + node.num_definitions; ++id)
        definitions[graph.definitions.value_of(id)] = id;
    }
    RegionCall call;
    call.body = Outliner(graph, uses, outputs, definitions, extent).run(call);
    if (!call.body) continue;
    call.body = bodies.unique(std::move(call.body));
    ++counts[call.body.get()];
    calls.push_back(std::move(call));
  }
  std::erase_if(calls, [&](const RegionCall& call) { return counts[call.body.get()] < 2; });
  for (const RegionCall& call : calls)
    if (call.body->locations.size() < graph.locations.size()) call.body->locations = graph.locations;
  return calls;
}

}  // namespace stator::passes
