#include "core/fake/twin.h"

#include <c10/core/InferenceMode.h>

#include <utility>

#include "core/fake/construct.h"

namespace stator::fake {

/// A list of fakes in the order of their making. An entry leaves it when the fake ends; then no list is needed.
class LivingTwin {
 public:
  LivingTwin() = default;
  LivingTwin(const LivingTwin&) = delete;
  ~LivingTwin() { leave(); }

  bool is_listed() const { return before_ != nullptr; }
  LivingTwin* next() const { return after_; }
  void follow(LivingTwin& before) {
    before_ = &before;
    after_ = std::exchange(before.after_, this);
    if (after_ != nullptr) after_->before_ = this;
  }
  void leave() {
    if (before_ != nullptr) before_->after_ = after_;
    if (after_ != nullptr) after_->before_ = before_;
    before_ = after_ = nullptr;
  }

 private:
  LivingTwin* before_ = nullptr;
  LivingTwin* after_ = nullptr;
};

/// The head of the list.
class LivingTwins : public LivingTwin {};

namespace {

class TwinnedImpl final : public c10::TensorImpl, public LivingTwin {
 public:
  TwinnedImpl(c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, at::Tensor real,
              LivingTwin* living)
      : TensorImpl(std::move(storage), keys, dtype), real_(std::move(real)) {
    if (living != nullptr) LivingTwin::follow(*living);
  }

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

  /// The recorder holds fakes weakly: what one owns goes when the program drops it.
  void release_resources() override {
    LivingTwin::leave();
    real_.reset();
    TensorImpl::release_resources();
  }

  const at::Tensor& real() const { return real_; }
  void follow_storage(c10::Storage storage) { storage_ = std::move(storage); }

  /// Takes over the metadata, the data and the dispatch keys of the twin.
  void become_real() {
    LivingTwin::leave();
    const at::Tensor real = std::exchange(real_, {});
    if (!real.defined()) return;
    const bool allowed = allow_tensor_metadata_change();
    set_allow_tensor_metadata_change(true);
    TensorImpl::shallow_copy_from(real.getIntrusivePtr());
    set_allow_tensor_metadata_change(allowed);
  }

 private:
  /// Another tensor with the same data, whose geometry may change by itself.
  static at::Tensor copy_of(const at::Tensor& real) {
    if (!real.defined()) return {};
    return at::Tensor(real.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
  }

  c10::intrusive_ptr<TensorImpl> copied(const c10::VariableVersion& version, bool allow_change) const {
    auto copy = c10::make_intrusive<TwinnedImpl>(c10::Storage(storage_), key_set_, data_type_, copy_of(real_),
                                                 is_listed() ? const_cast<TwinnedImpl*>(this) : nullptr);
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

Twins::Twins() : living_(std::make_unique<LivingTwins>()) {}

Twins::~Twins() { release(); }

void Twins::release() {
  while (LivingTwin* listed = living_->next()) {
    auto* twin = static_cast<TwinnedImpl*>(listed);
    // What its storage owns may be the last reference to it.
    const auto held = c10::intrusive_ptr<TwinnedImpl>::unsafe_reclaim_from_nonowning(twin);
    twin->become_real();
  }
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
      storage_of(real), keys_for(real.device()) | (real.key_set() & bits), real.dtype(), real, living_.get());
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
  if (c10::Storage storage = twins.storage_of(real); !storage.is_alias_of(fake.storage()))
    impl->follow_storage(storage);
  if (fake.sizes() == real.sizes() && fake.strides() == real.strides() &&
      fake.storage_offset() == real.storage_offset())
    return;
  set_geometry(fake, real.sym_sizes(), real.sym_strides(), real.sym_storage_offset());
}

}  // namespace stator::fake
