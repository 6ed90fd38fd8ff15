#include "core/backend/rewind.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/backend/early_checks.h"
#include "core/backend/probe.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"
#include "core/shapes/number_ops.h"

namespace stator::backend {
namespace {

constexpr size_t kMostBytes = 64 * 1024;

/// Operators that check the data they get, and where they do so: on other devices than the CPU nobody hears of it in
/// time. In alphabetical order, without the underscore of in-place forms; what ends in `*` is a prefix.
constexpr std::string_view kMayRaise[] = {
    "_assert_async",
    "_index_put_impl",
    "bernoulli",
    "binary_cross_entropy",
    "bincount",
    "binomial",
    "cholesky*",
    "cross_entropy_loss",
    "ctc_loss",
    "div*",
    "embedding",
    "embedding_bag",
    "floor_divide",
    "floor_divide_",
    "fmod",
    "gather",
    "histc",
    "index",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inverse",
    "linalg_*",
    "lu_*",
    "masked_scatter",
    "max_unpool*",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multinomial",
    "nll_loss*",
    "normal",
    "one_hot",
    "poisson",
    "pow",
    "put",
    "remainder",
    "repeat_interleave",
    "scatter*",
    "segment_reduce",
    "take",
    "take_along_dim",
    "tensor_split",
    "triangular_solve",
};

bool holds_tensors(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return holds_tensors(*optional->getElementType());
  if (const auto* list = type.castRaw<c10::ListType>()) return holds_tensors(*list->getElementType());
  return type.kind() == c10::TypeKind::TensorType;
}

/// Integers overflow 64 bits, and anything may be divided by zero.
bool number_may_fail(const graph::Graph& graph, const graph::Node& node) {
  if (node.op == shapes::fits_op() || node.op == shapes::distinct_op()) return true;
  if (node.op != shapes::number_op()) return false;
  const at::Tensor& result = graph.values[node.results[0].values[0]].fake;
  const std::string& op = node.args[0].constant.toStringRef();
  constexpr std::string_view kFail[] = {"float", "floordiv", "mod", "pow", "truediv"};
  return result.scalar_type() == at::kLong || std::find(std::begin(kFail), std::end(kFail), op) != std::end(kFail);
}

/// Whether sizes or numbers that depend on data decide if the operator can be done.
bool takes_symbols(const graph::Graph& graph, const graph::Node& node, const Rewind::Fitting& fitting) {
  bool found = false;
  const std::vector<at::ScalarType> dtypes = fitting_dtypes(graph, node);
  auto fits = [&](graph::ValueId number) {
    auto known = [&](at::ScalarType dtype) { return fitting.contains({number, dtype}); };
    return !dtypes.empty() && std::all_of(dtypes.begin(), dtypes.end(), known);
  };
  const std::vector<graph::ValueId> numbers = plain_numbers(node);
  const bool all_fit = !numbers.empty() && std::all_of(numbers.begin(), numbers.end(), fits);
  const auto& declared = node.op.schema().arguments();
  for (size_t i = 0; i < node.args.size(); ++i) {
    graph::for_each_value(node.args[i], [&](graph::ValueId id) {
      const at::Tensor& fake = graph.values[id].fake;
      found = found || !fake.defined() || fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    });
    if (all_fit) continue;
    found = found || (node.args[i].kind == graph::Argument::Kind::Value && graph::is_number(*declared[i].type()));
    found = found || (node.args[i].kind == graph::Argument::Kind::List && !holds_tensors(*declared[i].type()));
  }
  return found;
}

/// A call of something that may do what cannot be taken back.
bool is_lasting_call(const graph::Node& node) {
  const auto& name = node.op.operator_name();
  return name.name == "stator::call" && name.overload_name == "lasting";
}

bool may_raise(const graph::Graph& graph, const graph::Node& node, const Rewind::Fitting& fitting) {
  std::string_view name = node.op.operator_name().name;
  if (shapes::is_number_op(node.op)) return number_may_fail(graph, node);
  if (!name.starts_with("aten::")) return true;  // nobody knows
  if (takes_symbols(graph, node, fitting)) return true;
  name.remove_prefix(6);
  bool listed = std::any_of(std::begin(kMayRaise), std::end(kMayRaise), [&](std::string_view row) {
    if (row.ends_with('*')) return name.starts_with(row.substr(0, row.size() - 1));
    return name == row || (name.size() == row.size() + 1 && name.starts_with(row) && name.ends_with('_'));
  });
  if (!listed) return false;
  // Numbers that are no integers have an answer to every division and power.
  bool divides = name.starts_with("div") || name.starts_with("floor_divide") || name.starts_with("fmod") ||
                 name.starts_with("pow") || name.starts_with("remainder");
  for (const auto& result : node.results)
    for (graph::ValueId value : result.values) {
      const at::Tensor& fake = graph.values[value].fake;
      if (!fake.defined()) continue;
      if (!fake.device().is_cpu()) return false;
      if (divides && !c10::isIntegralType(fake.scalar_type(), false)) return false;
    }
  return true;
}

}  // namespace

Rewind::Rewind(const graph::Graph& graph) {
  auto count = static_cast<uint32_t>(graph.nodes.size());
  first_effect_ = first_lasting_ = count;
  hazard_ = {count, count};
  fails_inside_.assign(count, false);
  for (uint32_t i = 0; i < count; ++i) look_at(graph, i);
  // An effect that nothing comes after needs no way back, unless it may end half-way.
  bool is_over = first_effect_ + 1 >= count && !(first_effect_ < count && fails_inside_[first_effect_]);
  saves_ = !is_over && first_effect_ < first_lasting_;
}

void Rewind::look_at(const graph::Graph& graph, uint32_t index) {
  const graph::Node& node = graph.nodes[index];
  const auto& schema = node.op.schema();
  bool raises = may_raise(graph, node, fitting_);
  if (node.op == shapes::fits_op())
    fitting_.emplace(node.args[0].value, static_cast<at::ScalarType>(node.args[1].constant.toInt()));
  bool is_check = shapes::is_number_op(node.op) || node.op.operator_name().name == "aten::_assert_async";
  checks_late_ = checks_late_ || (is_check && raises && first_lasting_ < index);
  bool is_late = first_lasting_ < index && hazard_.node > index;
  if (is_late && (raises || raises_on_sight(graph, node))) hazard_ = {index, first_lasting_};
  if (node.op.hasTag(at::Tag::nondeterministic_seeded)) {
    first_effect_ = std::min(first_effect_, index);
    random_ = true;
    auto own_generator = [](const graph::Argument& a) {
      return a.kind == graph::Argument::Kind::Constant && a.constant.isGenerator();
    };
    bool elsewhere = std::any_of(node.args.begin(), node.args.end(), own_generator);
    for (const auto& result : node.results)
      for (graph::ValueId value : result.values) elsewhere |= !graph.values[value].fake.device().is_cpu();
    if (elsewhere) first_lasting_ = std::min(first_lasting_, index);
  }
  if (is_lasting_call(node)) first_lasting_ = std::min(first_lasting_, index);
  uint32_t effect = first_effect_;
  graph::for_each_written(node, [&](graph::ValueId id) { writes(graph, graph.values[id].fake, index); });
  fails_inside_[index] = raises && schema.is_mutable() && (first_effect_ < effect || effect < index);
  if (fails_inside_[index] && first_lasting_ == index && hazard_.node > index) hazard_ = {index, index};
}

void Rewind::writes(const graph::Graph& graph, const at::Tensor& target, uint32_t index) {
  bool outside = false, undone = !graph.nodes[index].op.hasTag(at::Tag::inplace_view);
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const at::Tensor& input = graph.values[graph.inputs[i]].fake;
    if (!graph::share_storage(input, target)) continue;
    outside = true;
    // What autograd knows of a tensor cannot be put back.
    undone &= !input.requires_grad() && input.device().is_cpu();
    auto is_it = [&](const auto& known) { return known.first == i; };
    if (std::none_of(written_.begin(), written_.end(), is_it)) {
      written_.emplace_back(i, index);
      bytes_ += input.has_storage() ? input.storage().nbytes() : 0;
    }
  }
  if (!outside) return;
  first_effect_ = std::min(first_effect_, index);
  if (!undone || bytes_ > kMostBytes) first_lasting_ = std::min(first_lasting_, index);
}

Rewind::Saved Rewind::save(const std::vector<at::Tensor>& inputs) const {
  Saved saved;
  if (!saves_) return saved;
  size_t bytes = 0;
  for (auto [input, node] : written_) {
    if (node >= first_lasting_) continue;
    const c10::Storage& storage = inputs[input].storage();
    bytes += storage.nbytes();
    if (bytes > kMostBytes) return {};
    // All of the storage: views may reach beyond an input that is itself a part.
    const auto* data = static_cast<const char*>(storage.data());
    saved.storages.push_back({storage, std::string(data, storage.nbytes())});
  }
  if (random_) {
    auto generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    saved.random_state = generator.get_state();
  }
  saved.is_whole = true;
  return saved;
}

bool Rewind::restore(const Saved& saved, uint32_t failed_node) const {
  // The node that raised did nothing itself, unless it may end half-way.
  bool inside = failed_node < fails_inside_.size() && fails_inside_[failed_node];
  if (failed_node < first_effect_ || (failed_node == first_effect_ && !inside)) return true;
  if (failed_node > first_lasting_ || (failed_node == first_lasting_ && inside) || !saved.is_whole) return false;
  for (auto& [storage, bytes] : saved.storages) {
    if (storage.nbytes() != bytes.size()) return false;
    std::memcpy(storage.mutable_data(), bytes.data(), bytes.size());
  }
  if (saved.random_state.defined()) {
    auto generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(saved.random_state);
  }
  return true;
}

}  // namespace stator::backend
