#include "core/backend/probe.h"

#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "core/graph/verify.h"

namespace stator::backend {
namespace {

using graph::Argument;

/// Of a list, which may be an optional one.
const c10::Type& element_of(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return element_of(*optional->getElementType());
  return *type.expectRef<c10::ListType>().getElementType();
}

/// What a node is given instead of its operands: zeros that share memory where those do.
class StandIns {
 public:
  StandIns(const graph::Graph& graph, const graph::Node& node) : graph_(graph), node_(node) {
    const auto& declared = node.op.schema().arguments();
    for (size_t i = 0; i < node.args.size(); ++i) look_at(node.args[i], *declared[i].real_type());
  }

  /// Whether there are stand-ins for every operand.
  bool are_possible() const { return is_possible_ && !(is_large() && has_numbers_); }

  /// Tells nodes apart that may do different things.
  std::string key() {
    std::ostringstream text;
    text << node_.op.operator_name();
    for (const Argument& argument : node_.args) describe(text, argument);
    return text.str();
  }

  torch::jit::Stack stack() {
    torch::jit::Stack made;
    for (size_t i = 0; i < node_.args.size(); ++i)
      made.push_back(made_for(node_.args[i], *node_.op.schema().arguments()[i].real_type()));
    return made;
  }

 private:
  // More than that is made smaller, which only operators without numbers among their arguments allow.
  static constexpr size_t kMostBytes = 64 * 1024;

  const at::Tensor& fake_of(const Argument& argument) const { return graph_.values[argument.value].fake; }

  bool is_large() const { return bytes_ > kMostBytes; }

  /// Before anything is asked of a fake: not every one has a storage of a known size.
  void look_at(const Argument& argument, const c10::Type& type) {
    for (const Argument& item : argument.items) look_at(item, element_of(type));
    if (argument.kind == Argument::Kind::Constant) {
      is_possible_ &= !argument.constant.isGenerator();
      has_numbers_ |= argument.constant.isIntList();
    }
    if (argument.kind != Argument::Kind::Value) return;
    const at::Tensor& fake = fake_of(argument);
    is_possible_ &= !graph::is_number(type) && fake.defined() && fake.device().is_cpu() &&
                    fake.layout() == at::kStrided && fake.has_storage() &&
                    !fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
                    !fake.storage().sym_nbytes().is_heap_allocated();
    if (is_possible_) bytes_ += fake.storage().nbytes();
  }

  void describe(std::ostringstream& text, const Argument& argument) {
    text << ' ';
    for (const Argument& item : argument.items) describe(text, item);
    if (argument.kind == Argument::Kind::Constant) {
      const c10::IValue& constant = argument.constant;
      if (!constant.isTensor()) text << constant;
      if (constant.isTensor()) text << constant.toTensor().scalar_type() << constant.toTensor().sizes();
    }
    if (argument.kind != Argument::Kind::Value) return;
    const at::Tensor& fake = fake_of(argument);
    auto storage = std::find(storages_.begin(), storages_.end(), fake.storage().unsafeGetStorageImpl());
    text << fake.scalar_type() << fake.sizes() << fake.strides() << fake.storage_offset() << 's'
         << storage - storages_.begin() << (fake.unsafeGetTensorImpl()->is_wrapped_number() ? "w" : "");
    if (storage == storages_.end()) storages_.push_back(fake.storage().unsafeGetStorageImpl());
  }

  c10::IValue made_for(const Argument& argument, const c10::Type& type) {
    switch (argument.kind) {
      case Argument::Kind::Constant:
        return argument.constant;
      case Argument::Kind::Value:
        return made_for(fake_of(argument));
      case Argument::Kind::List:
        break;
    }
    const c10::Type& element = element_of(type);
    if (element.kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> list;
      for (const Argument& item : argument.items) list.push_back(made_for(item, element).toOptional<at::Tensor>());
      return list;
    }
    c10::List<at::Tensor> list;
    for (const Argument& item : argument.items) list.push_back(made_for(item, element).toTensor());
    return list;
  }

  at::Tensor made_for(const at::Tensor& fake) {
    at::Tensor made;
    if (is_large()) {
      // Equal sizes stay equal, and ones stay ones.
      std::vector<int64_t> sizes = fake.sizes().vec();
      for (int64_t& size : sizes) size = std::min<int64_t>(size, 2);
      made = at::zeros(sizes, fake.options());
    } else {
      at::Tensor& memory = memory_[fake.storage().unsafeGetStorageImpl()];
      if (!memory.defined()) {
        auto bytes = static_cast<int64_t>(fake.storage().nbytes());
        memory = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte));
      }
      made = at::zeros({0}, fake.options());
      made.unsafeGetTensorImpl()->set_storage_keep_dtype(memory.storage());
      made.unsafeGetTensorImpl()->set_sizes_and_strides(fake.sizes(), fake.strides(), fake.storage_offset());
    }
    if (fake.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
    return made;
  }

  const graph::Graph& graph_;
  const graph::Node& node_;
  bool is_possible_ = true;
  bool has_numbers_ = false;  // lists of them, such as sizes
  size_t bytes_ = 0;          // of the operands' storages
  std::vector<const c10::StorageImpl*> storages_;
  std::unordered_map<const c10::StorageImpl*, at::Tensor> memory_;
};

bool is_silent(const graph::Graph& graph, const graph::Node& node) {
  const graph::ExecState& state = graph.states[node.state];
  return node.op.operator_name().name.starts_with("aten::") && state.autocast.empty() &&
         !node.op.hasTag(at::Tag::nondeterministic_seeded);
}

bool raises(const graph::Node& node, StandIns& stand_ins) {
  struct Quiet : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } quiet;
  c10::WarningUtils::WarningHandlerGuard warnings(&quiet);
  // What autograd refuses it refused when the node was recorded.
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  try {
    torch::jit::Stack stack = stand_ins.stack();
    node.op.callBoxed(stack);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

bool raises_on_sight(const graph::Graph& graph, const graph::Node& node) {
  if (!is_silent(graph, node)) return false;
  StandIns stand_ins(graph, node);
  if (!stand_ins.are_possible()) return false;
  const std::string key = stand_ins.key();
  constexpr size_t kMany = 4096;
  static std::mutex mutex;
  static std::unordered_map<std::string, bool> known;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = known.find(key); found != known.end()) return found->second;
  }
  const bool result = raises(node, stand_ins);
  std::lock_guard<std::mutex> lock(mutex);
  if (known.size() > kMany) known.clear();
  known.emplace(key, result);
  return result;
}

}  // namespace stator::backend
