#include "core/backend/kept_failures.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "core/backend/probe.h"
#include "core/backend/undo_log.h"
#include "core/graph/aliasing.h"
#include "core/graph/uses.h"
#include "core/ops/operator_table.h"
#include "core/shapes/number_ops.h"

namespace stator::backend {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// At namespace scope: a function-local static would have a guard, which a fork can leave locked.
const auto detach_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
const auto clone_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");

/// Whether the node computes with the data of its `index`-th argument, and not with its metadata alone. False where it
/// is not known.
bool reads_data(const Node& node, size_t index) {
  if (node.op.operator_name().name == "stator::call" || node.op == shapes::size_op()) return false;
  const std::string_view name = ops::base_name(node.op.operator_name());
  if (name.ends_with("_like") || name.starts_with("new_")) return false;
  const bool takes_form = name.ends_with("_as") || node.op.operator_name().overload_name == "other";
  if (takes_form && index > 0) return false;
  return index > 0 || !ops::has_trait(node.op, ops::Overwrites);
}

/// Nodes that may raise, and whose results no output and no input that is written needs.
std::vector<uint32_t> unneeded_failures(const Graph& graph, const UndoLog& log) {
  std::unordered_set<ValueId> needed(graph.outputs.begin(), graph.outputs.end());
  needed.insert(graph.inputs.begin(), graph.inputs.end());
  std::vector<uint32_t> found;
  for (auto n = static_cast<uint32_t>(graph.nodes.size()); n-- > 0;) {
    const Node& node = graph.nodes[n];
    bool is_needed = false;
    auto look = [&](ValueId id) { is_needed = is_needed || needed.contains(id); };
    graph::for_each_result(node, look);
    graph::for_each_written(node, look);
    const bool is_plain = !shapes::is_number_op(node.op) && node.op.operator_name().name != "stator::call";
    if (!is_needed && is_plain && (log.may_raise(n) || raises_on_sight(graph, node))) found.push_back(n);
    graph::for_each_result(node, [&](ValueId id) { needed.erase(id); });
    if (!is_needed) continue;
    for (size_t i = 0; i < node.args.size(); ++i)
      if (reads_data(node, i)) graph::for_each_value(node.args[i], [&](ValueId id) { needed.insert(id); });
  }
  return found;
}

/// A tensor that the node makes or writes to; kNoValue if there is none.
ValueId tensor_of(const Graph& graph, const Node& node) {
  ValueId found = graph::kNoValue;
  auto look = [&](ValueId id) {
    const bool is_tensor = graph.values[id].type == graph::ValueType::Tensor && graph.values[id].fake.defined();
    if (found == graph::kNoValue && is_tensor) found = id;
  };
  graph::for_each_result(node, look);
  graph::for_each_written(node, look);
  return found;
}

/// Whether a later node writes to the memory of a value.
bool is_written_after(const Graph& graph, const graph::Aliasing& aliasing, ValueId value, uint32_t node) {
  bool found = false;
  for (size_t n = node + 1; n < graph.nodes.size() && !found; ++n)
    graph::for_each_written(graph.nodes[n], [&](ValueId id) {
      found = found || id == value || aliasing.memory_of(id) == nullptr ||
              aliasing.memory_of(id) == aliasing.memory_of(value);
    });
  return found;
}

/// Moves the last node to just behind another one.
void move_last_behind(Graph& graph, uint32_t node) {
  const auto last = static_cast<uint32_t>(graph.nodes.size() - 1);
  std::rotate(graph.nodes.begin() + node + 1, graph.nodes.begin() + last, graph.nodes.end());
  for (graph::ValueInfo& value : graph.values) {
    if (value.producer == UINT32_MAX || value.producer <= node) continue;
    value.producer = value.producer == last ? node + 1 : value.producer + 1;
  }
}

void add_copy(Graph& graph, const graph::Aliasing& aliasing, ValueId value, uint32_t node) {
  const bool is_written = is_written_after(graph, aliasing, value, node);
  const auto index = static_cast<uint32_t>(graph.nodes.size());
  graph::ExecState state = graph.states[graph.nodes[node].state];
  state.grad_mode = state.grad_mode && !is_written;
  Node& copy = graph.add_node(is_written ? clone_op : detach_op);
  copy.args.push_back(graph::Argument::of_value(value));
  if (is_written) copy.args.push_back(graph::Argument::of_constant(c10::IValue()));
  copy.location = graph.nodes[node].location;
  copy.range = graph.nodes[node].range;
  copy.region = graph.nodes[node].region;
  copy.state = graph.intern_state(state);
  const ValueId made = graph.add_result_value(index, graph.values[value].fake.variable_data());
  graph.nodes[index].results.push_back({false, {made}});
  graph.outputs.push_back(made);
  move_last_behind(graph, node);
}

}  // namespace

void keep_failures(Graph& graph) {
  if (graph.below) return;
  const UndoLog log(graph, /*keeps_order=*/false);
  const graph::Aliasing aliasing(graph);
  // From the last node to the first, so that copies do not move the nodes that are left.
  for (const uint32_t node : unneeded_failures(graph, log)) {
    const ValueId value = tensor_of(graph, graph.nodes[node]);
    if (value != graph::kNoValue) add_copy(graph, aliasing, value, node);
  }
}

}  // namespace stator::backend
