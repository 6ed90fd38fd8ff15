#include "core/fake/fake_tensor.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <optional>
#include <unordered_map>

#include "core/fake/construct.h"
#include "core/observe/counters.h"

namespace stator::fake {

namespace {

thread_local std::optional<std::string> poison_reason;

observe::Counter counts[5] = {
    {"tiers", "own"}, {"tiers", "composite"}, {"tiers", "cpp_meta"}, {"tiers", "python"}, {"tiers", "refused"}};

bool is_plain_strided(const at::Tensor& real) {
  return real.layout() == at::kStrided && !real.is_quantized() && real.has_storage() &&
         !real.unsafeGetTensorImpl()->is_python_dispatch() && !real.is_meta();
}

}  // namespace

bool is_fake(const at::Tensor& tensor) { return tensor.defined() && tensor.key_set().has(c10::DispatchKey::Fake); }

struct FakeMode::Impl {
  struct Pair {
    c10::Storage real;  // owned, so that its address is not reused
    c10::Storage fake;
  };
  std::unordered_map<const c10::StorageImpl*, Pair> storages;
};

FakeMode::FakeMode() : impl_(std::make_unique<Impl>()) {}
FakeMode::~FakeMode() = default;

at::Tensor FakeMode::from_real(const at::Tensor& real, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  TORCH_CHECK(real.defined(), "an undefined tensor has no fake");
  if (is_fake(real)) return real;
  TORCH_CHECK(is_plain_strided(real), "no fake for a tensor of type ", real.toString(), " (", real.layout(), ")");

  auto& pair = impl_->storages[real.storage().unsafeGetStorageImpl()];
  if (!pair.fake) pair = {real.storage(), make_storage(real.storage().sym_nbytes(), real.device())};

  // Inference tensors are those made in inference mode.
  c10::InferenceMode as_born(real.is_inference());
  const c10::DispatchKeySet bits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  at::Tensor fake = make_over(pair.fake, keys_for(real.device()) | (real.key_set() & bits), real.scalar_type());
  set_geometry(fake, sizes, strides, real.sym_storage_offset());
  if (real.unsafeGetTensorImpl()->is_wrapped_number()) fake.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (real.requires_grad()) fake.unsafeGetTensorImpl()->set_requires_grad(true);
  return fake;
}

FakeScope::FakeScope() : was_included_(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake)) {
  if (!was_included_) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
}

FakeScope::~FakeScope() {
  if (!was_included_) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, false);
}

void poison(std::string reason) {
  // The first reason is kept: later ones are usually its consequences.
  if (!poison_reason) poison_reason = std::move(reason);
}

bool is_poisoned() { return poison_reason.has_value(); }

std::string take_poison() {
  std::string reason = poison_reason.value_or(std::string());
  poison_reason.reset();
  return reason;
}

bool note_error(std::string_view what) {
  // Code of torch that does not support symbolic sizes. The last text is that of torch 2.11.
  for (const std::string_view part :
       {"with symbolic sizes/strides", "dispatch_on_subclass", "expected to contain only concrete integers",
        "with symbolic shape", "no interpreter set"}) {
    if (what.find(part) == std::string_view::npos) continue;
    poison("a size that depends on data was asked for");
    return true;
  }
  // Constructors from data (`new_tensor`) name the dispatch key in their message.
  for (const std::string_view part : {std::string_view(kNoData), std::string_view("DispatchKey Fake doesn't")}) {
    if (what.find(part) == std::string_view::npos) continue;
    poison("the data of a fake tensor was asked for");
    return true;
  }
  return false;
}

void count_tier(Tier tier) { counts[static_cast<size_t>(tier)].add(); }

}  // namespace stator::fake
