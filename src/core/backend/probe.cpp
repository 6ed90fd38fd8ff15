#include "core/backend/probe.h"

#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "core/base/fork_safe.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"
#include "core/shapes/sym_node.h"

namespace stator::backend {
namespace {

using graph::Argument;

/// The element type of a list, which may be optional.
const c10::Type& item_type(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return item_type(*optional->getElementType());
  return *type.expectRef<c10::ListType>().getElementType();
}

/// The layout of a fake at the sizes of the captured call.
struct TrialLayout {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  int64_t last = -1;  // element of the storage; before `offset` if there is none
  int64_t bytes = 0;  // of the storage
  bool operator==(const TrialLayout&) const = default;

  static std::optional<TrialLayout> of(const at::Tensor& fake) {
    TrialLayout layout;
    const auto offset = shapes::captured_number(fake.sym_storage_offset()),
               bytes = shapes::captured_number(fake.storage().sym_nbytes());
    if (!offset || !bytes) return std::nullopt;
    layout.offset = *offset;
    layout.bytes = *bytes;
    layout.last = *offset;
    bool is_empty = false;
    for (int64_t dim = 0; dim < fake.dim(); ++dim) {
      const auto size = shapes::captured_number(fake.sym_size(dim)),
                 stride = shapes::captured_number(fake.sym_stride(dim));
      if (!size || !stride) return std::nullopt;
      layout.sizes.push_back(*size);
      layout.strides.push_back(*stride);
      is_empty |= *size == 0;
      layout.last += (*size - 1) * *stride;
    }
    if (is_empty) layout.last = *offset - 1;
    layout.bytes = std::max(layout.bytes, (layout.last + 1) * static_cast<int64_t>(fake.itemsize()));
    return layout;
  }
};

/// Zero tensors in place of a node's operands; they share memory where the operands do.
class TrialOperands {
 public:
  TrialOperands(const graph::Graph& graph, const graph::Node& node) : graph_(graph), node_(node) {
    const auto& declared = node.op.schema().arguments();
    for (size_t i = 0; i < node.args.size(); ++i) look_at(node.args[i], *declared[i].real_type());
  }

  /// Whether every operand can be replaced.
  bool are_possible() const { return is_possible_ && !(is_large() && has_numbers_); }

  /// Equal for nodes that behave the same.
  std::string key() {
    std::ostringstream text;
    text << node_.op.operator_name();
    for (const Argument& argument : node_.args) describe(text, argument);
    return text.str();
  }

  /// Whether large operands may share a part of their memory with one that is written to, which kernels reject. Smaller
  /// ones do not show it: each has its own memory.
  bool may_overlap_in_part() const {
    if (!is_large()) return false;
    std::vector<std::pair<const at::Tensor*, bool>> tensors;  // and whether the node writes to them
    const auto& declared = node_.op.schema().arguments();
    for (size_t i = 0; i < node_.args.size(); ++i) {
      const bool is_written = declared[i].alias_info() && declared[i].alias_info()->isWrite();
      graph::for_each_value(node_.args[i],
                            [&](graph::ValueId id) { tensors.emplace_back(&graph_.values[id].fake, is_written); });
    }
    for (const auto& [written, is_written] : tensors)
      for (const auto& [other, ignored] : tensors)
        if (is_written && written != other &&
            written->storage().unsafeGetStorageImpl() == other->storage().unsafeGetStorageImpl()) {
          const TrialLayout a = *TrialLayout::of(*written), b = *TrialLayout::of(*other);
          if (a.offset <= b.last && b.offset <= a.last && a != b) return true;
        }
    return false;
  }

  torch::jit::Stack stack() {
    torch::jit::Stack made;
    for (size_t i = 0; i < node_.args.size(); ++i)
      made.push_back(made_for(node_.args[i], *node_.op.schema().arguments()[i].real_type()));
    return made;
  }

 private:
  // Larger operands are made smaller, which is valid only for operators without numbers among their arguments.
  static constexpr size_t kMostBytes = 64 * 1024;

  const at::Tensor& fake_of(const Argument& argument) const { return graph_.values[argument.value].fake; }

  bool is_large() const { return bytes_ > kMostBytes; }

  /// Checks an argument first: not every fake has a storage of known size.
  void look_at(const Argument& argument, const c10::Type& type) {
    for (const Argument& item : argument.items) look_at(item, item_type(type));
    if (argument.kind == Argument::Kind::Constant) {
      is_possible_ &= !argument.constant.isGenerator();
      has_numbers_ |= argument.constant.isIntList();
    }
    if (argument.kind != Argument::Kind::Value) return;
    const at::Tensor& fake = fake_of(argument);
    is_possible_ &= !graph::is_number_type(type) && fake.defined() && fake.device().is_cpu() &&
                    fake.layout() == at::kStrided && fake.has_storage();
    if (!is_possible_) return;
    const auto layout = TrialLayout::of(fake);
    is_possible_ = layout.has_value();
    if (!layout) return;
    int64_t& known = storage_bytes_[fake.storage().unsafeGetStorageImpl()];
    known = std::max(known, layout->bytes);
    bytes_ += static_cast<size_t>(layout->bytes);
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
    const TrialLayout layout = *TrialLayout::of(fake);
    text << fake.scalar_type() << at::IntArrayRef(layout.sizes) << at::IntArrayRef(layout.strides) << layout.offset
         << 's' << storage - storages_.begin() << (fake.unsafeGetTensorImpl()->is_wrapped_number() ? "w" : "");
    if (storage == storages_.end()) storages_.push_back(fake.storage().unsafeGetStorageImpl());
  }

  c10::IValue made_for(const Argument& argument, const c10::Type& type) {
    switch (argument.kind) {
      case Argument::Kind::Constant:
        return argument.constant;
      case Argument::Kind::Value:
        return made_for(fake_of(argument));
      case Argument::Kind::List:
      case Argument::Kind::Graph:  // operators with sub-graphs are not tried
        break;
    }
    const c10::Type& element = item_type(type);
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
    TrialLayout layout = *TrialLayout::of(fake);
    if (is_large()) {
      // Keep equal sizes equal, and sizes of one.
      for (int64_t& size : layout.sizes) size = std::min<int64_t>(size, 2);
      made = at::zeros(layout.sizes, fake.options());
    } else {
      at::Tensor& memory = memory_[fake.storage().unsafeGetStorageImpl()];
      if (!memory.defined()) {
        const int64_t bytes = storage_bytes_[fake.storage().unsafeGetStorageImpl()];
        memory = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte));
      }
      made = at::zeros({0}, fake.options());
      made.unsafeGetTensorImpl()->set_storage_keep_dtype(memory.storage());
      made.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides, layout.offset);
    }
    if (fake.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
    return made;
  }

  const graph::Graph& graph_;
  const graph::Node& node_;
  bool is_possible_ = true;
  bool has_numbers_ = false;  // has lists of numbers, such as sizes
  size_t bytes_ = 0;          // of the operands' storages
  std::unordered_map<const c10::StorageImpl*, int64_t> storage_bytes_;
  std::vector<const c10::StorageImpl*> storages_;
  std::unordered_map<const c10::StorageImpl*, at::Tensor> memory_;
};

bool is_silent(const graph::Graph& graph, const graph::Node& node) {
  const graph::ExecState& state = graph.states[node.state];
  return node.op.operator_name().name.starts_with("aten::") && state.autocast.empty() &&
         !node.op.hasTag(at::Tag::nondeterministic_seeded);
}

bool raises(const graph::Node& node, TrialOperands& operands) {
  struct Quiet : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } quiet;
  c10::WarningUtils::WarningHandlerGuard warnings(&quiet);
  // Skip autograd: it accepted the node when it was recorded.
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  try {
    torch::jit::Stack stack = operands.stack();
    node.op.callBoxed(stack);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

/// The answers so far, by the key of the node's arguments. Thread-safe.
class Answers {
 public:
  std::optional<bool> find(const std::string& key) {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  void keep(const std::string& key, bool answer) {
    std::lock_guard lock(mutex_);
    if (known_.size() > kMost) known_.clear();
    known_.emplace(key, answer);
  }

 private:
  static constexpr size_t kMost = 4096;
  ForkSafeMutex& mutex_ = *new ForkSafeMutex;
  std::unordered_map<std::string, bool> known_;
};

Answers& answers = *new Answers;

}  // namespace

bool raises_on_sight(const graph::Graph& graph, const graph::Node& node) {
  if (!is_silent(graph, node)) return false;
  TrialOperands operands(graph, node);
  if (!operands.are_possible()) return false;
  const std::string key = operands.key();
  if (auto known = answers.find(key)) return *known;
  const bool result = operands.may_overlap_in_part() || raises(node, operands);
  answers.keep(key, result);
  return result;
}

}  // namespace stator::backend
