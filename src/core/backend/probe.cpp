#include "core/backend/probe.h"

#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>

namespace stator::backend {
namespace {

using graph::Argument;

/// What a node is given instead of its operands: zeros that share memory where those do.
class StandIns {
 public:
  StandIns(const graph::Graph& graph, const graph::Node& node) : graph_(graph), node_(node) {}

  /// Tells nodes apart that may do different things; empty where there are no stand-ins for it.
  std::string key() {
    std::ostringstream text;
    text << node_.op.operator_name();
    for (const Argument& argument : node_.args) describe(text, argument);
    return is_possible_ ? text.str() : std::string();
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

  bool is_large() const {
    size_t bytes = 0;
    auto count = [&](const Argument& argument, const auto& self) -> void {
      if (argument.kind == Argument::Kind::Value) bytes += fake_of(argument).storage().nbytes();
      for (const Argument& item : argument.items) self(item, self);
    };
    for (const Argument& argument : node_.args) count(argument, count);
    return bytes > kMostBytes;
  }

  void describe(std::ostringstream& text, const Argument& argument) {
    text << ' ';
    switch (argument.kind) {
      case Argument::Kind::Constant:
        is_possible_ &= !argument.constant.isGenerator() && !(is_large() && argument.constant.isIntList());
        if (argument.constant.isTensor()) {
          text << argument.constant.toTensor().scalar_type() << argument.constant.toTensor().sizes();
        } else {
          text << argument.constant;
        }
        return;
      case Argument::Kind::List:
        for (const Argument& item : argument.items) describe(text, item);
        return;
      case Argument::Kind::Value:
        break;
    }
    const at::Tensor& fake = fake_of(argument);
    is_possible_ &= fake.defined() && fake.device().is_cpu() && fake.layout() == at::kStrided && fake.has_storage() &&
                    !fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    if (!is_possible_) return;
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
    const auto& element = *type.expectRef<c10::ListType>().getElementType();
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
  std::vector<const c10::StorageImpl*> storages_;
  std::unordered_map<const c10::StorageImpl*, at::Tensor> memory_;
};

bool is_silent(const graph::Graph& graph, const graph::Node& node) {
  const graph::ExecState& state = graph.states[node.state];
  return node.op.operator_name().name.starts_with("aten::") && state.autocast.empty() &&
         !node.op.hasTag(at::Tag::nondeterministic_seeded);
}

bool raises(const graph::Node& node, torch::jit::Stack stack) {
  struct Quiet : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } quiet;
  c10::WarningUtils::WarningHandlerGuard warnings(&quiet);
  // What autograd refuses it refused when the node was recorded.
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  try {
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
  const std::string key = stand_ins.key();
  if (key.empty()) return false;
  constexpr size_t kMany = 4096;
  static std::mutex mutex;
  static std::unordered_map<std::string, bool> known;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = known.find(key); found != known.end()) return found->second;
  }
  const bool result = raises(node, stand_ins.stack());
  std::lock_guard<std::mutex> lock(mutex);
  if (known.size() > kMany) known.clear();
  known.emplace(key, result);
  return result;
}

}  // namespace stator::backend
