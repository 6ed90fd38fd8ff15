#include "core/backend/early_checks.h"

#include <algorithm>
#include <set>

#include "core/backend/undo_log.h"
#include "core/graph/aliasing.h"
#include "core/graph/reorder.h"
#include "core/graph/verify.h"
#include "core/ops/operator_table.h"
#include "core/shapes/number_ops.h"

namespace stator::backend {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::ValueId;

/// The type of an argument, or of its elements if it is a list.
const c10::Type& innermost_type(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return innermost_type(*optional->getElementType());
  if (const auto* list = type.castRaw<c10::ListType>()) return innermost_type(*list->getElementType());
  return type;
}

bool is_check(const Node& node) {
  return node.op == shapes::number_op() || node.op == shapes::fits_op() || node.op == shapes::between_op() ||
         node.op.operator_name().name == "aten::_assert_async";
}

/// Adds a check before each node that may reject a number. Returns the old index of each node.
std::vector<uint32_t> add_fit_checks(Graph& graph) {
  std::vector<Node> nodes;
  std::vector<uint32_t> earlier, position(graph.nodes.size());
  std::set<std::pair<ValueId, at::ScalarType>> checked;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    for (at::ScalarType dtype : fitting_dtypes(graph, node))
      for (ValueId number : plain_numbers(node)) {
        if (!checked.emplace(number, dtype).second) continue;
        Node check{shapes::fits_op(), {Argument::of_value(number), Argument::of_constant(dtype)}, {}};
        check.state = node.state;
        check.location = node.location;
        nodes.push_back(std::move(check));
        earlier.push_back(n);
      }
    position[n] = static_cast<uint32_t>(nodes.size());
    nodes.push_back(std::move(node));
    earlier.push_back(n);
  }
  graph.nodes = std::move(nodes);
  for (graph::ValueInfo& value : graph.values)
    if (value.producer != UINT32_MAX) value.producer = position[value.producer];
  return earlier;
}

/// The input storages that a group of nodes reads or writes.
struct Touched {
  std::set<const void*> all, written;

  void add(const graph::Aliasing& aliasing, const Node& node) {
    for (const Argument& argument : node.args)
      graph::for_each_value(argument, [&](ValueId id) { add(aliasing.memory_of(id), all); });
    graph::for_each_written(node, [&](ValueId id) { add(aliasing.memory_of(id), written); });
  }
  static void add(const void* memory, std::set<const void*>& to) {
    if (memory != nullptr) to.insert(memory);
  }
};

/// Moving a node across a write is valid only if both do not touch the same storage. Inputs with different storages at
/// capture may share one in a later call, so a check of that is added as the first node; `order` gets an entry for it.
void add_distinct_check(Graph& graph, std::vector<uint32_t>& order) {
  const size_t moved = std::is_sorted_until(order.begin(), order.end()) - order.begin();
  const graph::Aliasing aliasing(graph);
  Touched early, passed;
  for (size_t n = 0; n < moved; ++n) early.add(aliasing, graph.nodes[n]);
  for (size_t n = moved; n < order.size() && order[n] < order[moved - 1]; ++n) passed.add(aliasing, graph.nodes[n]);
  std::set<const void*> seen;
  std::vector<Argument> tensors;  // in the order of the inputs: a graph must not depend on addresses
  for (ValueId input : graph.inputs) {
    const void* storage = aliasing.memory_of(input);
    if (storage == nullptr || !seen.insert(storage).second) continue;
    const bool by_early = early.all.contains(storage) && !passed.written.empty();
    const bool by_passed = passed.written.contains(storage) || (passed.all.contains(storage) && !early.written.empty());
    if (by_early || by_passed) tensors.push_back(Argument::of_value(input));
  }
  if (tensors.size() < 2) return;
  Node check{shapes::distinct_op(), {Argument::of_list(std::move(tensors))}, {}};
  check.state = graph.nodes.front().state;
  check.location = graph.nodes.front().location;
  graph.nodes.insert(graph.nodes.begin(), std::move(check));
  for (graph::ValueInfo& value : graph.values)
    if (value.producer != UINT32_MAX) ++value.producer;
  order.insert(order.begin(), order.front());
}

/// As `check_early`, whether or not the graph has an unrecoverable write.
std::vector<uint32_t> move_checks(Graph& graph) {
  std::vector<uint32_t> earlier = add_fit_checks(graph);
  std::vector<bool> marked(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) marked[n] = is_check(graph.nodes[n]);
  std::vector<uint32_t> order = graph::move_to_front(graph, marked);
  if (order.empty()) return earlier;
  add_distinct_check(graph, order);
  for (uint32_t& index : order) index = earlier[index];
  return order;
}

bool has_symbols(const at::Tensor& fake) {
  return fake.defined() && fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

/// Whether the value is so small that computing it twice costs next to nothing.
bool is_cheap(const at::Tensor& fake) {
  constexpr int64_t kMostElements = 256;
  return fake.defined() && fake.device().is_cpu() && !has_symbols(fake) && fake.numel() <= kMostElements;
}

/// Whether the node may run once more before the graph does, with copies of the inputs that it writes to.
bool can_run_before(const Graph& graph, const graph::Aliasing& aliasing, const Node& node) {
  if (node.op == shapes::distinct_op()) return true;
  const bool is_known = shapes::is_number_op(node.op) || node.op.operator_name().name.starts_with("aten::");
  if (!is_known || graph::draws_random(node) || graph::changes_metadata(node)) return false;
  bool can = true;
  auto look_at = [&](ValueId id) { can = can && is_cheap(graph.values[id].fake); };
  for (const Argument& argument : node.args) {
    can = can && argument.kind != Argument::Kind::Graph;
    graph::for_each_value(argument, look_at);
  }
  for (const graph::Result& result : node.results)
    for (ValueId id : result.values)
      if (id != graph::kNoValue) look_at(id);
  // Copies of inputs share no memory.
  graph::for_each_written(node, [&](ValueId id) { can = can && aliasing.inputs_sharing(id).size() < 2; });
  return can;
}

/// Whether an operator rejects numbers that do not fit its dtype, where what the graph wrote before cannot be undone.
bool fails_late_for_numbers(const Graph& graph, const UndoLog& log) {
  if (log.undoes_everything()) return false;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return !plain_numbers(node).empty() && !fitting_dtypes(graph, node).empty();
  });
}

}  // namespace

std::vector<ValueId> plain_numbers(const Node& node) {
  std::vector<ValueId> found;
  const auto& declared = node.op.schema().arguments();
  for (size_t i = 0; i < node.args.size(); ++i)
    if (graph::is_number_type(innermost_type(*declared[i].type())))
      graph::for_each_value(node.args[i], [&](ValueId id) { found.push_back(id); });
  return found;
}

std::vector<at::ScalarType> fitting_dtypes(const Graph& graph, const Node& node) {
  if (!ops::has_trait(node.op, ops::TakesFittingNumbers)) return {};
  for (ValueId number : plain_numbers(node)) {
    const at::Tensor& fake = graph.values[number].fake;
    if (!fake.defined() || fake.scalar_type() == at::kBool) return {};
  }
  std::vector<at::ScalarType> dtypes;
  const auto& declared = node.op.schema().arguments();
  bool all_known = true;
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (graph::is_number_type(innermost_type(*declared[i].type()))) continue;
    graph::for_each_value(node.args[i], [&](ValueId id) {
      const at::Tensor& fake = graph.values[id].fake;
      const bool known = fake.defined() && fake.device().is_cpu() && c10::isFloatingType(fake.scalar_type()) &&
                         fake.scalar_type() <= at::kBFloat16;
      all_known = all_known && known;
      if (known && std::find(dtypes.begin(), dtypes.end(), fake.scalar_type()) == dtypes.end())
        dtypes.push_back(fake.scalar_type());
    });
  }
  return all_known ? dtypes : std::vector<at::ScalarType>();
}

std::vector<uint32_t> check_early(Graph& graph, const UndoLog& log) {
  if (graph.below || log.hazard().node >= graph.nodes.size()) return {};
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_check)) return {};
  return move_checks(graph);
}

std::optional<EarlyPart> early_part(const Graph& graph) {
  const bool has_checks = std::any_of(graph.nodes.begin(), graph.nodes.end(), is_check);
  const bool has_numbers = std::any_of(graph.values.begin(), graph.values.end(),
                                       [](const graph::ValueInfo& value) { return graph::holds_number(value.type); });
  if (graph.below || (!has_checks && !has_numbers)) return {};
  const bool has_sizes = std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](ValueId id) {
    const graph::ValueInfo& info = graph.values[id];
    return (info.number && info.type != graph::ValueType::Float) || has_symbols(info.fake);
  });
  if (has_sizes) return {};
  const UndoLog log(graph, /*keeps_order=*/false);
  if (!(has_checks && log.checks()) && !fails_late_for_numbers(graph, log)) return {};
  EarlyPart part{graph};
  part.order = move_checks(part.graph);
  const auto last = std::find_if(part.graph.nodes.rbegin(), part.graph.nodes.rend(), is_check);
  part.nodes = static_cast<uint32_t>(part.graph.nodes.rend() - last);
  const graph::Aliasing aliasing(part.graph);
  for (uint32_t n = 0; n < part.nodes; ++n)
    if (!can_run_before(part.graph, aliasing, part.graph.nodes[n])) return {};
  return part;
}

}  // namespace stator::backend
