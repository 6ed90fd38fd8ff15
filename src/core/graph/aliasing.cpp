#include "core/graph/aliasing.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/graph/control_ops.h"

namespace stator::graph {
namespace {

/// Operators that write to arguments which their schemas do not mark, if `flag` is set.
struct HiddenWrite {
  std::string_view op, flag;
  std::array<std::string_view, 2> written;
};
constexpr HiddenWrite kHiddenWrites[] = {
    {"aten::batch_norm", "training", {"running_mean", "running_var"}},
    {"aten::native_batch_norm", "training", {"running_mean", "running_var"}},
    {"aten::cudnn_batch_norm", "training", {"running_mean", "running_var"}},
    {"aten::miopen_batch_norm", "training", {"running_mean", "running_var"}},
    {"aten::_batch_norm_impl_index", "training", {"running_mean", "running_var"}},
    {"aten::instance_norm", "use_input_stats", {"running_mean", "running_var"}},
};

const HiddenWrite* find_hidden_write(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  if (name.find("_norm") == std::string_view::npos || op.schema().is_mutable()) return nullptr;
  const auto* found = std::find_if(std::begin(kHiddenWrites), std::end(kHiddenWrites),
                                   [&](const HiddenWrite& row) { return row.op == name; });
  return found != std::end(kHiddenWrites) ? found : nullptr;
}

/// Operators whose results may be, or share memory with, arguments although their schemas do not say so.
constexpr std::string_view kHiddenAliases[] = {
    "aten::_unsafe_view",
    "aten::unsafe_split",
    "aten::unsafe_split_with_sizes",
    "aten::unsafe_chunk",
    "aten::dropout",
    "aten::alpha_dropout",
    "aten::feature_dropout",
    "aten::feature_alpha_dropout",
    "aten::atleast_1d",
    "aten::atleast_2d",
    "aten::atleast_3d",
    "aten::broadcast_tensors",
    "aten::meshgrid",
    "aten::cartesian_prod",
    "aten::conj_physical",
    "aten::to_dense",
    "aten::type_as",
    "aten::sum_to_size",
    "aten::cumprod_backward",
    "aten::resolve_conj",
    "aten::resolve_neg",
    "aten::pad",
    "aten::constant_pad_nd",
    "aten::_pad_circular",
    "aten::lift_fresh",
    "aten::set_data",
    "aten::rrelu",
    "aten::einsum",
    "aten::matrix_power",
    "aten::linalg_matrix_power",
    "aten::combinations",
    "aten::roll",
};

bool hides_aliases(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  if (!name.starts_with("aten::") && !name.starts_with("prims::")) return !name.starts_with("stator::");
  return std::find(std::begin(kHiddenAliases), std::end(kHiddenAliases), name) != std::end(kHiddenAliases);
}

bool is_set(const Node& node, size_t index) {
  const Argument& flag = node.args[index];
  return flag.kind != Argument::Kind::Constant || !flag.constant.isBool() || flag.constant.toBool();
}

/// Whether two annotations name a common set, at the top or in a list.
bool may_be_same(const c10::AliasInfo& a, const c10::AliasInfo& b) {
  for (const auto& set : a.beforeSets())
    if (b.beforeSets().contains(set)) return true;
  const auto &left = a.containedTypes(), &right = b.containedTypes();
  return std::any_of(left.begin(), left.end(), [&](const auto& inner) { return may_be_same(inner, b); }) ||
         std::any_of(right.begin(), right.end(), [&](const auto& inner) { return may_be_same(a, inner); });
}

/// Whether the node replaces the storage of its first operand.
bool exchanges_storage(const Node& node) {
  const std::string_view name = node.op.operator_name().name;
  return name == "aten::set_" || name == "aten::set_data";
}

}  // namespace

bool may_write(const c10::OperatorHandle& op) { return op.schema().is_mutable() || find_hidden_write(op) != nullptr; }

bool writes_argument(const Node& node, size_t index) {
  const auto& declared = node.op.schema().arguments()[index];
  if (declared.alias_info() != nullptr && declared.alias_info()->isWrite()) return true;
  const HiddenWrite* hidden = find_hidden_write(node.op);
  if (hidden == nullptr || std::ranges::find(hidden->written, declared.name()) == hidden->written.end()) return false;
  const auto flag = node.op.schema().argumentIndexWithName(std::string(hidden->flag));
  return !flag || is_set(node, static_cast<size_t>(*flag));
}

bool draws_random(const Node& node) {
  if (node.op.hasTag(at::Tag::nondeterministic_seeded)) return true;
  return std::any_of(node.args.begin(), node.args.end(), [](const Argument& argument) {
    if (argument.kind != Argument::Kind::Graph) return false;
    const auto& nodes = argument.graph()->nodes;
    return std::any_of(nodes.begin(), nodes.end(), draws_random);
  });
}

bool changes_metadata(const Node& node) {
  const std::string_view name = node.op.operator_name().name;
  return node.op.hasTag(at::Tag::inplace_view) || name.starts_with("aten::set_") || name.starts_with("aten::resize");
}

const void* memory_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

const void* Aliasing::memory_of(ValueId value) const { return graph::memory_of(graph_.values.at(value).fake); }

const std::vector<uint32_t>& Aliasing::inputs_sharing(ValueId value) const {
  if (!has_inputs_) {
    has_inputs_ = true;
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i)
      if (const void* memory = memory_of(graph_.inputs[i])) inputs_[memory].push_back(i);
  }
  const void* memory = memory_of(value);
  auto found = memory != nullptr ? inputs_.find(memory) : inputs_.end();
  return found != inputs_.end() ? found->second : none_;
}

bool Aliasing::is_written(const at::Tensor& tensor) const {
  const void* memory = graph::memory_of(tensor);
  if (!written_) {
    written_.emplace();
    for (const Node& node : graph_.nodes) for_each_written(node, [&](ValueId id) { written_->insert(memory_of(id)); });
  }
  return memory != nullptr && written_->contains(memory);
}

std::vector<Aliasing::Alias> Aliasing::aliases_of(const Node& node) const {
  std::vector<Alias> found;
  const auto& schema = node.op.schema();
  auto schema_says = [&](size_t result, size_t argument) {
    const auto* made = schema.returns()[result].alias_info();
    const auto* given = schema.arguments()[argument].alias_info();
    return made != nullptr && given != nullptr && may_be_same(*made, *given);
  };
  for (size_t r = 0; r < node.results.size(); ++r)
    for (ValueId result : node.results[r].values) {
      if (result == kNoValue) continue;
      for (size_t a = 0; a < node.args.size(); ++a)
        for_each_value(node.args[a], [&](ValueId argument) {
          const void *made = memory_of(result), *given = memory_of(argument);
          const bool known = made != nullptr && given != nullptr;
          const bool shared = result == argument || (known ? made == given : schema_says(r, a));
          if (shared && std::find(found.begin(), found.end(), Alias{result, argument}) == found.end())
            found.push_back({result, argument});
        });
    }
  return found;
}

MemoryGroups::MemoryGroups(const Graph& graph) : parents_(graph.values.size()) {
  for (uint32_t i = 0; i < parents_.size(); ++i) parents_[i] = i;
  join_by_storage(graph);
  for (const Node& node : graph.nodes) join_node(graph, node);
}

uint32_t MemoryGroups::of(ValueId value) const {
  while (parents_[value] != value) value = parents_[value] = parents_[parents_[value]];
  return value;
}

void MemoryGroups::join(ValueId a, ValueId b) { parents_[of(a)] = of(b); }

void MemoryGroups::join_by_storage(const Graph& graph) {
  std::unordered_map<const void*, ValueId> first;
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (const void* memory = memory_of(graph.values[id].fake)) join(id, first.try_emplace(memory, id).first->second);
}

void MemoryGroups::join_node(const Graph& graph, const Node& node) {
  const bool joins_all = exchanges_storage(node) || hides_aliases(node.op) ||
                         node.op == control_op(ControlOp::Checkpoint) ||
                         node.op == control_op(ControlOp::WritingCheckpoint);
  if (!joins_all) {
    for (const auto& alias : Aliasing(graph).aliases_of(node)) join(alias.result, alias.argument);
    return;
  }
  const bool by_fakes = !exchanges_storage(node);
  auto is_known = [&](ValueId id) { return by_fakes && graph::memory_of(graph.values[id].fake) != nullptr; };
  ValueId first = kNoValue;
  auto visit = [&](ValueId id) {
    if (is_known(id)) return;
    if (first == kNoValue) first = id;
    join(id, first);
  };
  for (const Argument& argument : node.args) for_each_value(argument, visit);
  for_each_result(node, visit);
}

}  // namespace stator::graph
