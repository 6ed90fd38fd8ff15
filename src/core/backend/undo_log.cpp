#include "core/backend/undo_log.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/backend/early_checks.h"
#include "core/backend/probe.h"
#include "core/graph/aliasing.h"
#include "core/graph/control_ops.h"
#include "core/graph/verify.h"
#include "core/ops/operator_table.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"

namespace stator::backend {
namespace {

constexpr size_t kMostBytes = 64 * 1024;

bool holds_tensors(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return holds_tensors(*optional->getElementType());
  if (const auto* list = type.castRaw<c10::ListType>()) return holds_tensors(*list->getElementType());
  return type.kind() == c10::TypeKind::TensorType;
}

/// Whether computing a number may fail: integers may overflow 64 bits, and divisors may be zero.
bool number_may_fail(const graph::Graph& graph, const graph::Node& node) {
  if (node.op == shapes::fits_op() || node.op == shapes::between_op() || node.op == shapes::distinct_op()) return true;
  if (node.op != shapes::number_op()) return false;
  const at::Tensor& result = graph.values[node.results[0].values[0]].fake;
  const auto op = shapes::find_op(node.args[0].constant.toStringRef());
  constexpr shapes::Op kFail[] = {shapes::Op::FloorDiv, shapes::Op::Mod, shapes::Op::Pow, shapes::Op::TrueDiv};
  return result.scalar_type() == at::kLong || !op || shapes::is_float_function(*op) || shapes::is_real_function(*op) ||
         std::find(std::begin(kFail), std::end(kFail), *op) != std::end(kFail);
}

/// Guards decide about backed sizes before the graph runs.
bool has_sizes_of_data(const at::Tensor& fake) {
  return fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         (shapes::depends_on_data(fake.sym_sizes()) || shapes::depends_on_data(fake.sym_strides()) ||
          shapes::depends_on_data({fake.sym_storage_offset()}));
}

/// Whether the node computes a number from backed sizes alone. `known`: those of earlier nodes.
bool is_from_sizes(const graph::Graph& graph, const graph::Node& node, const UndoLog::Numbers& known) {
  if (node.op == shapes::size_op() || node.op == shapes::stride_op()) {
    const at::Tensor& fake = graph.values[node.args[0].value].fake;
    return fake.defined() && !has_sizes_of_data(fake);
  }
  if (node.op != shapes::number_op() && node.op != shapes::choose_op()) return false;
  return std::all_of(node.args.begin(), node.args.end(), [&](const graph::Argument& argument) {
    return argument.kind != graph::Argument::Kind::Value || known.contains(argument.value);
  });
}

/// Whether an argument is made of sizes, in a place where the operator takes sizes.
bool takes_sizes(const graph::Argument& argument, const c10::Type& declared, const UndoLog::Numbers& from_sizes) {
  if (const auto* optional = declared.castRaw<c10::OptionalType>())
    return takes_sizes(argument, *optional->getElementType(), from_sizes);
  if (const auto* list = declared.castRaw<c10::ListType>())
    return takes_sizes(argument, *list->getElementType(), from_sizes);
  if (declared.kind() != c10::TypeKind::SymIntType && declared.kind() != c10::TypeKind::IntType) return false;
  bool all = true;
  graph::for_each_value(argument, [&](graph::ValueId id) { all = all && from_sizes.contains(id); });
  return all;
}

bool is_elementwise(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const auto form = ops::elementwise_form(name);
  if (form != ops::ElementwiseForm::Functional && form != ops::ElementwiseForm::InPlace) return false;
  const std::string_view base = ops::base_name(name);
  const auto rows = ops::rows();
  const auto row = std::lower_bound(rows.begin(), rows.end(), base,
                                    [](const ops::Row& one, std::string_view wanted) { return one.name < wanted; });
  return !base.empty() && row != rows.end() && row->name == base && row->is_elementwise;
}

/// By the expressions as they were made: an equality that was learned since may be one that an operator checks itself.
bool has_same_sizes(const at::Tensor& a, const at::Tensor& b) {
  const auto sizes = a.sym_sizes(), others = b.sym_sizes();
  return std::equal(sizes.begin(), sizes.end(), others.begin(), others.end(), [](const auto& x, const auto& y) {
    const auto known = x.maybe_as_int();
    const shapes::Expr symbol = shapes::expression_of(x);
    return known ? known == y.maybe_as_int() : symbol && symbol == shapes::expression_of(y);
  });
}

/// Whether an elementwise operator gets tensors of the sizes of its first argument, or without dimensions: it raises
/// for no sizes.
bool fits_all_sizes(const graph::Graph& graph, const graph::Node& node) {
  if (!is_elementwise(node.op) || node.args[0].kind != graph::Argument::Kind::Value) return false;
  const at::Tensor& first = graph.values[node.args[0].value].fake;
  bool fits = first.defined();
  for (const graph::Argument& argument : node.args)
    graph::for_each_value(argument, [&](graph::ValueId id) {
      const at::Tensor& fake = graph.values[id].fake;
      fits = fits && fake.defined() && (fake.dim() == 0 || has_same_sizes(first, fake));
    });
  return fits;
}

/// Whether the operator may raise depending on sizes or numbers that depend on data.
bool takes_symbols(const graph::Graph& graph, const graph::Node& node, const UndoLog::Fitting& fitting,
                   const UndoLog::Numbers& from_sizes) {
  bool found = false;
  const std::vector<at::ScalarType> dtypes = fitting_dtypes(graph, node);
  auto fits = [&](graph::ValueId number) {
    auto known = [&](at::ScalarType dtype) { return fitting.contains({number, dtype}); };
    return !dtypes.empty() && std::all_of(dtypes.begin(), dtypes.end(), known);
  };
  const std::vector<graph::ValueId> numbers = plain_numbers(node);
  const bool all_fit = !numbers.empty() && std::all_of(numbers.begin(), numbers.end(), fits);
  const bool fits_sizes = fits_all_sizes(graph, node);
  const auto& declared = node.op.schema().arguments();
  for (size_t i = 0; i < node.args.size(); ++i) {
    graph::for_each_value(node.args[i], [&](graph::ValueId id) {
      const at::Tensor& fake = graph.values[id].fake;
      found = found || !fake.defined() || (has_sizes_of_data(fake) && !fits_sizes);
    });
    if (all_fit || takes_sizes(node.args[i], *declared[i].type(), from_sizes)) continue;
    found = found || (node.args[i].kind == graph::Argument::Kind::Value && graph::is_number_type(*declared[i].type()));
    found = found || (node.args[i].kind == graph::Argument::Kind::List && !holds_tensors(*declared[i].type()));
  }
  return found;
}

/// Whether the node calls code that may have effects which cannot be undone.
bool is_lasting_call(const graph::Node& node) {
  const auto& name = node.op.operator_name();
  return name.name == "stator::call" && name.overload_name == "lasting";
}

bool may_raise(const graph::Graph& graph, const graph::Node& node, const UndoLog::Fitting& fitting,
               const UndoLog::Numbers& from_sizes) {
  std::string_view name = node.op.operator_name().name;
  if (shapes::is_number_op(node.op)) return number_may_fail(graph, node);
  if (!name.starts_with("aten::")) return true;  // not known: assume that it may raise
  if (takes_symbols(graph, node, fitting, from_sizes)) return true;
  const ops::Traits traits = ops::traits_of(node.op);
  const bool on_integers = (traits & ops::FallibleOnIntegers) != 0;
  if (!on_integers && (traits & ops::Fallible) == 0) return false;
  for (const auto& result : node.results)
    for (graph::ValueId value : result.values) {
      if (value == graph::kNoValue) continue;
      const at::Tensor& fake = graph.values[value].fake;
      if (!fake.defined()) continue;
      // Other devices report such an error too late to act on it.
      if (!fake.device().is_cpu()) return false;
      if (on_integers && !c10::isIntegralType(fake.scalar_type(), false)) return false;
    }
  return true;
}

/// Whether a node of a sub-graph may raise for the data it gets. Its values have metadata, but no fakes.
bool may_raise_in_part(const graph::Graph& part, const graph::Node& node);

bool parts_may_raise(const graph::Node& node) {
  return std::any_of(node.args.begin(), node.args.end(), [](const graph::Argument& argument) {
    if (argument.kind != graph::Argument::Kind::Graph) return false;
    const graph::Graph& part = *argument.graph();
    return std::any_of(part.nodes.begin(), part.nodes.end(),
                       [&](const graph::Node& inner) { return may_raise_in_part(part, inner); });
  });
}

bool may_raise_in_part(const graph::Graph& part, const graph::Node& node) {
  if (graph::is_control_op(node.op)) return parts_may_raise(node);
  if (!node.op.operator_name().name.starts_with("aten::")) return true;  // not known: assume that it may raise
  bool raises = (ops::traits_of(node.op) & (ops::FallibleOnIntegers | ops::Fallible)) != 0;
  for (const graph::Argument& argument : node.args)
    graph::for_each_value(argument, [&](graph::ValueId id) {
      const graph::DefinitionId definition = part.values[id].definition;
      raises = raises || definition == graph::kNoDefinition || part.definitions.has_symbols(definition);
    });
  return raises;
}

/// Whether the node takes random numbers. A dropout outside of training, or with probability 0 in attention, does not.
bool takes_random_numbers(const graph::Node& node) {
  const auto& declared = node.op.schema().arguments();
  for (size_t i = 0; i < node.args.size() && i < declared.size(); ++i) {
    const std::string& name = declared[i].name();
    const c10::IValue* given = node.args[i].kind == graph::Argument::Kind::Constant ? &node.args[i].constant : nullptr;
    if (given && (name == "train" || name == "training") && given->isBool() && !given->toBool()) return false;
    if (given && name == "dropout_p" && given->isDouble() && given->toDouble() == 0) return false;
  }
  return graph::draws_random(node);
}

}  // namespace

UndoLog::UndoLog(const graph::Graph& graph, bool keeps_order, uint32_t checked)
    : keeps_order_(keeps_order), checked_(checked) {
  auto count = static_cast<uint32_t>(graph.nodes.size());
  first_effect_ = first_lasting_ = first_unsaved_ = first_fallible_ = count;
  hazard_ = early_hazard_ = {count, count};
  raises_.assign(count, false);
  fails_inside_.assign(count, false);
  const graph::Aliasing aliasing(graph);
  for (graph::ValueId id : graph.inputs)
    if (const shapes::Expr& number = graph.values[id].number; number && !number->has_unbacked) from_sizes_.insert(id);
  for (uint32_t i = 0; i < count; ++i) look_at(graph, aliasing, i);
  // Nothing has to be saved if the graph has no effect. The same holds if nodes run in order and the first effect is in
  // the last node: no node fails after it. But if that node itself may fail after a partial write, its write is saved.
  bool is_over =
      first_effect_ + (keeps_order ? 1 : 0) >= count && !(first_effect_ < count && fails_inside_[first_effect_]);
  saves_ = !is_over && first_effect_ < first_unsaved_;
  if (first_fallible_ < first_lasting_ && first_lasting_ < count) early_hazard_ = {first_lasting_, first_fallible_};
}

void UndoLog::look_at(const graph::Graph& graph, const graph::Aliasing& aliasing, uint32_t index) {
  const graph::Node& node = graph.nodes[index];
  const auto& schema = node.op.schema();
  const bool raises = raises_[index] = index >= checked_ && backend::may_raise(graph, node, fitting_, from_sizes_);
  if (is_from_sizes(graph, node, from_sizes_)) from_sizes_.insert(node.results[0].values[0]);
  if (node.op == shapes::fits_op())
    fitting_.emplace(node.args[0].value, static_cast<at::ScalarType>(node.args[1].constant.toInt()));
  if (raises) first_fallible_ = std::min(first_fallible_, index);
  bool is_check = shapes::is_number_op(node.op) || node.op.operator_name().name == "aten::_assert_async";
  checks_ = checks_ || (is_check && raises);
  checks_late_ = checks_late_ || (is_check && raises && first_lasting_ < index);
  bool is_late = first_lasting_ < index && hazard_.node > index;
  if (is_late && index >= checked_ && (raises || raises_on_sight(graph, node))) hazard_ = {index, first_lasting_};
  if (takes_random_numbers(node)) {
    first_effect_ = std::min(first_effect_, index);
    random_ = true;
    auto own_generator = [](const graph::Argument& a) {
      return a.kind == graph::Argument::Kind::Constant && a.constant.isGenerator();
    };
    bool elsewhere = std::any_of(node.args.begin(), node.args.end(), own_generator);
    for (const auto& result : node.results)
      for (graph::ValueId value : result.values) {
        const bool is_tensor = value != graph::kNoValue && graph.values[value].fake.defined();
        elsewhere |= is_tensor && !graph.values[value].fake.device().is_cpu();
      }
    if (elsewhere) lasts(index);
  }
  if (is_lasting_call(node)) lasts(index);
  uint32_t effect = first_effect_;
  graph::for_each_written(node, [&](graph::ValueId id) { writes(graph, aliasing.inputs_sharing(id), index); });
  const bool fails = graph::is_control_op(node.op) ? parts_may_raise(node) : raises;
  fails_inside_[index] = fails && schema.is_mutable() && (first_effect_ < effect || effect < index);
  if (fails_inside_[index] && first_lasting_ == index && hazard_.node > index) hazard_ = {index, index};
}

void UndoLog::writes(const graph::Graph& graph, const std::vector<uint32_t>& inputs, uint32_t index) {
  if (inputs.empty()) return;
  bool undone = !graph.nodes[index].op.hasTag(at::Tag::inplace_view);
  for (uint32_t i : inputs) {
    const at::Tensor& input = graph.values[graph.inputs[i]].fake;
    // The autograd state of a tensor cannot be restored. A tensor of symbolic size may be large in a later run: each
    // run saves what is small. If the nodes run in order, the plan does not rely on that.
    const bool is_symbolic = input.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    undone &= !input.requires_grad() && input.device().is_cpu();
    may_be_large_ |= is_symbolic;
    if (is_symbolic && keeps_order_) first_lasting_ = std::min(first_lasting_, index);
    auto is_it = [&](const auto& known) { return known.first == i; };
    if (std::none_of(written_.begin(), written_.end(), is_it)) {
      written_.emplace_back(i, index);
      bytes_ += input.has_storage() && !is_symbolic ? input.storage().nbytes() : 0;
    }
  }
  first_effect_ = std::min(first_effect_, index);
  if (!undone || bytes_ > kMostBytes) lasts(index);
}

void UndoLog::lasts(uint32_t index) {
  first_lasting_ = std::min(first_lasting_, index);
  first_unsaved_ = std::min(first_unsaved_, index);
}

UndoLog::Saved UndoLog::save(const std::vector<at::Tensor>& inputs) const {
  Saved saved;
  if (!saves_) return saved;
  size_t bytes = 0;
  for (auto [input, node] : written_) {
    if (node >= first_unsaved_) continue;
    const c10::Storage& storage = inputs[input].storage();
    bytes += storage.nbytes();
    if (bytes > kMostBytes) return {};
    // Save the entire storage: a view may reach beyond an input that is itself a view.
    const auto* data = static_cast<const char*>(storage.data());
    saved.storages.push_back({storage, std::string(data, storage.nbytes())});
  }
  if (random_) {
    auto generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard lock(generator.mutex());
    saved.random_state = generator.get_state();
  }
  saved.is_complete = true;
  return saved;
}

bool UndoLog::restore(const Saved& saved, const Failure& failure) const {
  if (failure.wrote == Failure::Wrote::Nothing) return true;
  const auto count = static_cast<uint32_t>(fails_inside_.size());
  const uint32_t failed_node = failure.wrote == Failure::Wrote::BeforeNode ? failure.node : count;
  // The node that raised wrote nothing itself, unless it can fail after a partial write.
  bool inside = failed_node < fails_inside_.size() && fails_inside_[failed_node];
  if (failed_node < first_effect_ || (failed_node == first_effect_ && !inside)) return true;
  if (failed_node > first_unsaved_ || (failed_node == first_unsaved_ && inside) || !saved.is_complete) return false;
  for (auto& [storage, bytes] : saved.storages) {
    if (storage.nbytes() != bytes.size()) return false;
    std::memcpy(storage.mutable_data(), bytes.data(), bytes.size());
  }
  if (saved.random_state.defined()) {
    auto generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard lock(generator.mutex());
    generator.set_state(saved.random_state);
  }
  return true;
}

}  // namespace stator::backend
