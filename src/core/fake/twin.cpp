#include "core/fake/twin.h"

#include <c10/core/InferenceMode.h>

#include "core/fake/construct.h"

namespace stator::fake {
namespace {

class TwinnedImpl final : public c10::TensorImpl {
 public:
  TwinnedImpl(c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, at::Tensor real)
      : TensorImpl(std::move(storage), keys, dtype), real_(std::move(real)) {}

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override {
    return copied(version, allow_change);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override {
    return copied(version, allow_change);
  }

  /// Runs for `b.data = c`: from then on, b's real tensor shares the data of c's.
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) override {
    const auto* twinned = dynamic_cast<const TwinnedImpl*>(other.get());
    real_ = twinned == nullptr ? at::Tensor() : copy_of(twinned->real_);
    TensorImpl::shallow_copy_from(other);
  }

  const at::Tensor& real() const { return real_; }
  void follow(c10::Storage storage) { storage_ = std::move(storage); }

 private:
  /// Another tensor with the same data, whose geometry may change by itself.
  static at::Tensor copy_of(const at::Tensor& real) {
    if (!real.defined()) return {};
    return at::Tensor(real.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
  }

  c10::intrusive_ptr<TensorImpl> copied(const c10::VariableVersion& version, bool allow_change) const {
    auto copy = c10::make_intrusive<TwinnedImpl>(c10::Storage(storage_), key_set_, data_type_, copy_of(real_));
    copy_tensor_metadata(this, copy.get(), version, allow_change);
    copy->refresh_numel();
    copy->refresh_contiguous();
    return copy;
  }

  at::Tensor real_;
};

TwinnedImpl* impl_of(const at::Tensor& fake) {
  return fake.defined() ? dynamic_cast<TwinnedImpl*>(fake.unsafeGetTensorImpl()) : nullptr;
}

}  // namespace

bool can_have_fake(const at::Tensor& real) {
  return real.layout() == at::kStrided && !real.is_nested() && !real.is_quantized() && real.has_storage() &&
         !real.unsafeGetTensorImpl()->is_python_dispatch() && !real.is_meta();
}

c10::Storage Twins::storage_of(const at::Tensor& real) {
  auto* impl = real.storage().unsafeGetStorageImpl();
  if (auto found = storages_.find(impl); found != storages_.end()) {
    auto known = found->second.real.lock();
    auto fake = found->second.fake.lock();
    if (known && fake) return c10::Storage(std::move(fake));
    storages_.erase(found);
  }
  if (storages_.size() >= sweep_at_) {
    std::erase_if(storages_, [](const auto& entry) { return entry.second.fake.expired(); });
    sweep_at_ = 2 * storages_.size() + 1024;
  }
  c10::Storage fake = make_storage(real.storage().sym_nbytes(), real.device());
  storages_.emplace(impl, Pair{Weak<c10::StorageImpl>(real.storage().getWeakStorageImpl()),
                               Weak<c10::StorageImpl>(fake.getWeakStorageImpl())});
  return fake;
}

at::Tensor Twins::make(const at::Tensor& real) {
  const c10::DispatchKeySet bits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  c10::InferenceMode as_born(real.is_inference());
  at::Tensor fake = at::detail::make_tensor<TwinnedImpl>(
      storage_of(real), keys_for(real.device()) | (real.key_set() & bits), real.dtype(), real);
  set_geometry(fake, real.sym_sizes(), real.sym_strides(), real.sym_storage_offset());
  if (real.unsafeGetTensorImpl()->is_wrapped_number()) fake.unsafeGetTensorImpl()->set_wrapped_number(true);
  return fake;
}

at::Tensor twin_of(const at::Tensor& fake) {
  const auto* impl = impl_of(fake);
  return impl ? impl->real() : at::Tensor();
}

void follow_twin(const at::Tensor& fake, Twins& twins) {
  auto* impl = impl_of(fake);
  if (impl == nullptr) return;
  const at::Tensor& real = impl->real();
  if (c10::Storage storage = twins.storage_of(real); !storage.is_alias_of(fake.storage())) impl->follow(storage);
  if (fake.sizes() == real.sizes() && fake.strides() == real.strides() &&
      fake.storage_offset() == real.storage_offset())
    return;
  set_geometry(fake, real.sym_sizes(), real.sym_strides(), real.sym_storage_offset());
}

}  // namespace stator::fake
