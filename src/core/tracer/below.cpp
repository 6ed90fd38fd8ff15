#include "core/tracer/below.h"

#include <algorithm>

#include "core/fake/fake_tensor.h"
#include "core/shapes/sym_node.h"

namespace stator::tracer {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

const auto alias_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::alias", "");

c10::DispatchKeySet lazy_bits(const at::Tensor& tensor) {
  return tensor.key_set() & c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
}

}  // namespace

BelowRecorder::BelowRecorder(std::string graph_name, shapes::ShapeEnv* symbols)
    : BelowRecorder(std::move(graph_name), symbols, alias_op) {}

BelowRecorder::BelowRecorder(std::string graph_name, shapes::ShapeEnv* symbols, c10::OperatorHandle copied_by)
    : Recorder(std::move(graph_name), symbols), copied_by_(std::move(copied_by)) {
  graph::ExecState plain;
  plain.grad_mode = false;
  graph().states.push_back(plain);
}

void BelowRecorder::before(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  pending_ = arguments(op, stack);
}

void BelowRecorder::after(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  record(op, std::move(pending_), stack);
}

void BelowRecorder::adopt(const at::Tensor& fake, ValueId id) {
  held_.emplace_back(fake.getIntrusivePtr());
  know(fake, id);
}

ValueId BelowRecorder::output(const at::Tensor& fake) {
  if (auto id = current(fake); id != kNoValue) return id;
  return resolve(copied_by_, fake);
}

ValueId BelowRecorder::number_value(const c10::OperatorHandle& op, shapes::Ex) {
  refuse(op, "a number that depends on data has no form below autograd");
}

ValueId BelowRecorder::resolve(const c10::OperatorHandle&, const at::Tensor& tensor) {
  auto id = same_head(tensor);
  if (id == kNoValue) return kNoValue;
  auto index = static_cast<uint32_t>(graph().nodes.size());
  add_node(copied_by_, {Argument::of_value(id)});
  auto copy = add_value(index, tensor);
  graph().nodes[index].results.push_back({false, {copy}});
  return copy;
}

bool BelowRecorder::is_same(const Known& known, const at::Tensor& tensor) {
  if (known.bits != lazy_bits(tensor) || known.dtype != tensor.dtype()) return false;
  const bool symbolic = tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  if (symbolic != (known.symbolic != nullptr)) return false;
  if (!symbolic) {
    return known.offset == tensor.storage_offset() && tensor.sizes() == known.sizes &&
           tensor.strides() == known.strides;
  }
  auto same = [](c10::SymIntArrayRef a, c10::SymIntArrayRef b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
             if (x.is_heap_allocated() && y.is_heap_allocated() && x.toSymNodeImplUnowned() == y.toSymNodeImplUnowned())
               return true;
             return shapes::known(x.sym_eq(y)).value_or(false);
           });
  };
  return same(known.symbolic->sizes, tensor.sym_sizes()) && same(known.symbolic->strides, tensor.sym_strides()) &&
         same({known.symbolic->offset}, {tensor.sym_storage_offset()});
}

ValueId BelowRecorder::same_head(const at::Tensor& tensor) const {
  if (!fake::is_fake(tensor)) return kNoValue;
  auto found = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == by_storage_.end()) return kNoValue;
  for (auto id = found->second.rbegin(); id != found->second.rend(); ++id) {
    if (is_same(known_[*id], tensor)) return *id;
  }
  return kNoValue;
}

graph::ValueInfo BelowRecorder::describe(ValueId id, const at::Tensor& fake) {
  held_.emplace_back(fake.getIntrusivePtr());
  remember(id, fake);
  return {};
}

void BelowRecorder::remember(ValueId id, const at::Tensor& fake) {
  if (known_.size() <= id) known_.resize(id + 1);
  Known& known = known_[id];
  known = {};
  known.impl = fake.unsafeGetTensorImpl();
  if (!fake.has_storage() || fake.layout() != at::kStrided || fake.is_nested()) return;
  known.storage = fake.storage();
  known.bits = lazy_bits(fake);
  known.dtype = fake.dtype();
  if (fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
    known.symbolic =
        std::make_unique<SymbolicGeometry>(fake.sym_sizes().vec(), fake.sym_strides().vec(), fake.sym_storage_offset());
  } else {
    known.offset = fake.storage_offset();
    known.sizes = fake.sizes();
    known.strides = fake.strides();
  }
  by_storage_[fake.storage().unsafeGetStorageImpl()].push_back(id);
}

Memories BelowRecorder::memories() const {
  Memories found;
  std::unordered_map<const c10::StorageImpl*, int64_t> numbers;
  for (const Known& known : known_) {
    const c10::SymInt offset = known.symbolic ? known.symbolic->offset : c10::SymInt(known.offset);
    const bool is_known = known.storage && !offset.is_heap_allocated();
    found.offsets.push_back(is_known ? offset.as_int_unchecked() : -1);
    if (!is_known) {
      found.storages.push_back(-1);
      continue;
    }
    const auto [entry, is_new] =
        numbers.try_emplace(known.storage.unsafeGetStorageImpl(), static_cast<int64_t>(found.bytes.size()));
    if (is_new) found.bytes.push_back(known.storage.sym_nbytes());
    found.storages.push_back(entry->second);
  }
  return found;
}

void BelowRecorder::leave_storage(ValueId id) {
  if (!known_[id].storage) return;
  auto found = by_storage_.find(known_[id].storage.unsafeGetStorageImpl());
  if (found != by_storage_.end()) std::erase(found->second, id);
}

void BelowRecorder::returned(ValueId id, const at::Tensor& fake) {
  // An in-place operator may have changed its geometry or storage.
  if (known_[id].impl != fake.unsafeGetTensorImpl()) return;
  leave_storage(id);
  remember(id, fake);
}

bool BelowRecorder::is_unchanged(ValueId id, const at::Tensor& tensor) const {
  const Known& known = known_[id];
  if (!known.storage) return true;
  return tensor.has_storage() && known.storage.unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl() &&
         is_same(known, tensor);
}

void BelowRecorder::leave(ValueId id) {
  unknow(known_[id].impl);
  known_[id].impl = nullptr;
}

void BelowRecorder::forget(ValueId id) {
  unknow(known_[id].impl);
  leave_storage(id);
  known_[id] = {};
}

}  // namespace stator::tracer
