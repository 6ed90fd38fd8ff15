#include <ATen/core/List.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/graph/aliasing.h"
#include "core/graph/control_ops.h"
#include "core/graph/exec_state.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"
#include "core/passes/effects.h"
#include "core/passes/simplify.h"
#include "core/shapes/number_ops.h"

namespace stator::passes {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

bool is_constant(const Argument& argument) {
  if (argument.kind == Argument::Kind::List)
    return std::all_of(argument.items.begin(), argument.items.end(), is_constant);
  return argument.kind == Argument::Kind::Constant && !argument.constant.isPyObject();
}

/// The argument as a value of the operator's parameter type. A list argument is not one constant but one for each item:
/// the list is built here.
c10::IValue boxed(const Argument& argument, const c10::Type& type) {
  if (argument.kind == Argument::Kind::Constant) return argument.constant;
  const auto* list = &type;
  while (list->kind() == c10::TypeKind::OptionalType)
    list = list->expectRef<c10::OptionalType>().getElementType().get();
  const auto& element = *list->expectRef<c10::ListType>().getElementType();
  if (element.kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const Argument& item : argument.items)
      tensors.push_back(item.constant.isNone() ? std::nullopt : std::optional(item.constant.toTensor()));
    return tensors;
  }
  if (element.kind() == c10::TypeKind::TensorType) {
    c10::List<at::Tensor> tensors;
    for (const Argument& item : argument.items) tensors.push_back(item.constant.toTensor());
    return tensors;
  }
  c10::List<int64_t> numbers;
  for (const Argument& item : argument.items) numbers.push_back(item.constant.toInt());
  return numbers;
}

class Folder {
 public:
  Folder(graph::Graph& graph, int64_t max_elements) : graph_(graph), groups_(graph), max_elements_(max_elements) {
    for (const graph::Node& node : graph.nodes)
      graph::for_each_written(node, [&](ValueId id) { fixed_.insert(groups_.of(id)); });
    for (ValueId id : graph.outputs) fixed_.insert(groups_.of(id));
    for (ValueId id : graph.inputs) fixed_.insert(groups_.of(id));
  }

  size_t run() {
    std::vector<bool> kept(graph_.nodes.size(), true);
    for (uint32_t n = 0; n < kept.size(); ++n) {
      graph::Node& node = graph_.nodes[n];
      for (size_t i = 0; i < node.args.size(); ++i) replace(node.args[i], *node.op.schema().arguments()[i].type());
      kept[n] = !fold(node);
    }
    keep_nodes(graph_, kept);
    return static_cast<size_t>(std::count(kept.begin(), kept.end(), false));
  }

 private:
  void replace(Argument& argument, const c10::Type& type) {
    for (Argument& item : argument.items) {
      const auto* list = &type;
      while (list->kind() == c10::TypeKind::OptionalType)
        list = list->expectRef<c10::OptionalType>().getElementType().get();
      replace(item, *list->expectRef<c10::ListType>().getElementType());
    }
    if (argument.kind != Argument::Kind::Value) return;
    auto found = folded_.find(argument.value);
    if (found == folded_.end()) return;
    if (!graph::is_number_type(type)) {
      argument = Argument::of_constant(found->second);
    } else if (graph::holds_number(graph_.values[argument.value].type)) {
      argument = Argument::of_constant(shapes::plain_number(found->second));
    } else {
      argument = Argument::of_constant(found->second.item());
    }
  }

  bool may_fold(const graph::Node& node) const {
    const std::string_view name = node.op.operator_name().name;
    // `empty` and the like return uninitialised memory.
    if (name.find("empty") != std::string_view::npos || name == "stator::item" || node.results.empty()) return false;
    if (!name.starts_with("aten::") && !shapes::is_number_op(node.op)) return false;
    if (graph::may_write(node.op) || graph::is_control_op(node.op) || graph::draws_random(node)) return false;
    if (node.op.schema().returns().empty() || !std::all_of(node.args.begin(), node.args.end(), is_constant))
      return false;
    bool is_free = true;
    graph::for_each_result(node, [&](ValueId id) { is_free = is_free && !fixed_.contains(groups_.of(id)); });
    return is_free;
  }

  /// Whether the tensor may be a constant in the value's place.
  bool fits(ValueId id, const at::Tensor& data) const {
    if (!data.defined() || !data.device().is_cpu() || data.layout() != at::kStrided || data.numel() > max_elements_ ||
        data.is_conj() || data.is_neg())
      return false;
    const auto definition = graph_.values[id].definition;
    if (graph::holds_number(graph_.values[id].type)) return true;
    if (definition == graph::kNoDefinition) return false;
    graph::TensorMeta now = graph::TensorMeta::of(data);
    return now == graph_.definitions.meta(definition);
  }

  bool fold(const graph::Node& node) {
    if (!may_fold(node)) return false;
    torch::jit::Stack stack;
    for (size_t i = 0; i < node.args.size(); ++i)
      stack.push_back(boxed(node.args[i], *node.op.schema().arguments()[i].type()));
    try {
      graph::StateSwitcher state;
      graph::ExecState plain = graph_.states.at(node.state);
      plain.grad_mode = false;
      state.enter(plain);
      node.op.callBoxed(&stack);
      state.end(0);
    } catch (const std::exception&) {
      return false;  // the operator raises: the node stays, so that the run raises
    }
    std::vector<std::pair<ValueId, at::Tensor>> made;
    for (size_t r = 0; r < node.results.size(); ++r) {
      const graph::Result& result = node.results[r];
      if (!stack[r].isTensor() && !stack[r].isTensorList()) return false;
      const auto tensors = result.is_list ? stack[r].toTensorVector() : std::vector<at::Tensor>{stack[r].toTensor()};
      if (tensors.size() != result.values.size()) return false;
      for (size_t i = 0; i < tensors.size(); ++i)
        if (result.values[i] != kNoValue) made.emplace_back(result.values[i], tensors[i]);
    }
    for (const auto& [id, data] : made)
      if (!fits(id, data)) return false;
    folded_.insert(made.begin(), made.end());
    return true;
  }

  graph::Graph& graph_;
  const graph::MemoryGroups groups_;
  const int64_t max_elements_;
  std::unordered_set<uint32_t> fixed_;  // groups that are written to, or leave the graph
  std::unordered_map<ValueId, at::Tensor> folded_;
};

}  // namespace

size_t fold_constants(graph::Graph& graph, int64_t max_elements) {
  change_sub_graphs(graph, [&](graph::Graph& part) { fold_constants(part, max_elements); });
  return Folder(graph, max_elements).run();
}

}  // namespace stator::passes
