#include "compile/graph_facts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "core/backend/early_checks.h"
#include "core/backend/kept_failures.h"
#include "core/backend/probe.h"
#include "core/backend/undo_log.h"
#include "core/graph/aliasing.h"
#include "core/graph/graph.h"
#include "core/graph/text.h"

namespace stator {

size_t op_count(const graph::Graph& graph) { return graph.nodes.size(); }

std::string graph_text(const graph::Graph& graph) { return graph::to_text(graph); }

RunFacts examine_run(graph::Graph& graph, bool moves_checks) {
  RunFacts facts;
  backend::UndoLog log(graph);
  if (moves_checks) facts.order = backend::check_early(graph, log);
  if (!facts.order.empty()) log = backend::UndoLog(graph);
  auto copy = [](const backend::UndoLog::Hazard& hazard) { return Hazard{hazard.node, hazard.effect}; };
  facts.verifies_late = log.checks_late();
  facts.verifies_unordered = log.checks() && !log.undoes_everything();
  facts.hazard = copy(log.hazard());
  facts.unordered_hazard = copy(log.early_hazard().node < log.hazard().node ? log.early_hazard() : log.hazard());
  return facts;
}

RunFacts examine_python_run(const graph::Graph& graph) {
  std::optional<backend::EarlyPart> part = backend::early_part(graph);
  const graph::Graph& examined = part ? part->graph : graph;
  const backend::UndoLog log(examined, true, part ? part->nodes : 0);
  RunFacts facts;
  facts.is_checked_early = part.has_value();
  if (part) facts.order = part->order;
  facts.verifies_unordered = log.checks() && !log.undoes_everything();
  const auto hazard = log.early_hazard().node < log.hazard().node ? log.early_hazard() : log.hazard();
  facts.unordered_hazard = {hazard.node, hazard.effect};
  return facts;
}

std::vector<FollowedWrite> followed_writes(const graph::Graph& graph) {
  std::vector<FollowedWrite> found;
  const graph::Aliasing aliasing(graph);
  auto add = [&](graph::ValueId target, uint32_t node) {
    if (!graph.values[target].fake.requires_grad()) return;
    for (uint32_t i : aliasing.inputs_sharing(target)) {
      bool is_known = std::any_of(found.begin(), found.end(), [&](const auto& write) { return write.input == i; });
      if (!is_known) found.push_back({i, node});
    }
  };
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    if (!graph.states[node.state].grad_mode) continue;
    graph::for_each_written(node, [&](graph::ValueId id) { add(id, n); });
  }
  return found;
}

bool has_refused_write(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [&](const graph::Node& node) {
    return graph::may_write(node.op) && backend::raises_on_sight(graph, node);
  });
}

static bool begins_to_require_grad(const graph::Node& node) {
  return node.op.operator_name().name == "aten::requires_grad_";
}

bool makes_leaves(const graph::Graph& graph) { return std::ranges::any_of(graph.nodes, begins_to_require_grad); }

bool hides_leaves(const graph::Graph& graph) {
  auto is_hidden = [&](const graph::Node& node) {
    const bool is_inside = std::ranges::any_of(node.args, [](const graph::Argument& argument) {
      return argument.kind == graph::Argument::Kind::Graph &&
             (makes_leaves(*argument.graph()) || hides_leaves(*argument.graph()));
    });
    if (is_inside || !begins_to_require_grad(node)) return is_inside;
    const graph::ValueId leaf = node.args[0].value;
    const void* memory = graph::memory_of(graph.values[leaf].fake);
    return node.region != 0 || std::ranges::any_of(graph.outputs, [&](graph::ValueId output) {
             const at::Tensor& fake = graph.values[output].fake;
             return output != leaf && fake.defined() && graph::memory_of(fake) == memory;
           });
  };
  return std::ranges::any_of(graph.nodes, is_hidden);
}

void keep_failures(graph::Graph& graph) { backend::keep_failures(graph); }

void drop_fakes(graph::Graph& graph) { graph.drop_fakes(); }

}  // namespace stator
