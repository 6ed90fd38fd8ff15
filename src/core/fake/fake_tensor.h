#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/export.h"

namespace c10 {
class OperatorHandle;
}

/// Fake tensors: real `TensorImpl`s with the `Fake` dispatch key, over a storage without memory on the true device.
/// They have sizes, strides, dtype, device, requires_grad and storage aliasing. Reading data throws and poisons the
/// thread.
namespace stator::fake {

/// Registers the operator table and the boxed fallback on the `Fake` key; called once at load. Returns an empty string,
/// or why it failed (Stator then runs everything eagerly and gives this reason).
STATOR_API std::string install();

STATOR_API bool is_fake(const at::Tensor& tensor);
/// Whether the storage belongs to fakes.
STATOR_API bool is_fake(const c10::Storage& storage);

/// Makes fakes of real tensors. Real tensors that share a storage give fakes that share a storage.
/// Lives as long as one capture attempt. Not thread-safe.
class STATOR_API FakeMode {
 public:
  FakeMode();
  ~FakeMode();
  /// Same sizes, strides, offset, dtype, device, requires_grad, conj/neg bits; always a leaf.
  /// Throws c10::Error for tensors that have no fake: sparse, nested, quantised, meta, or with a Python dispatch.
  at::Tensor from_real(const at::Tensor& real) { return from_real(real, real.sym_sizes(), real.sym_strides()); }
  /// With these sizes and strides, of which some are symbolic.
  at::Tensor from_real(const at::Tensor& real, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// RAII: the `Fake` key is included on this thread, so that factories and random operators make fakes and touch no
/// generator.
class STATOR_API FakeScope {
 public:
  FakeScope();
  ~FakeScope();
  FakeScope(const FakeScope&) = delete;

 private:
  bool was_included_;
};

/// Thrown by shape functions for an operator, or a use of it, that no tier answers exactly. The capture breaks there.
class STATOR_API Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A flag of the thread, with a reason: a fake's data was read, or an operator was refused. No `except` in user code
/// can hide it. The code that called into torch checks and clears it.
STATOR_API void poison(std::string reason);
STATOR_API bool is_poisoned();
STATOR_API std::string take_poison();
/// Poisons and returns true if `what` is the message that libtorch throws for a fake's data or symbolic sizes. Called
/// with the message of every exception that is caught from torch.
STATOR_API bool note_error(std::string_view what);

/// Where the shape function of an operator comes from. Own: Stator's families. Composite: the operator's composite
/// kernel runs on fakes, and the operators it calls are counted too. CppMeta: torch's C++ meta kernel on meta twins.
/// Python: the meta kernel of an operator that a user registered; no operator of torch's own is answered so.
enum class Tier : uint8_t { Own, Composite, CppMeta, Python, Refused };
/// Counts an answer, in the group `tiers` of the counters.
void count_tier(Tier tier);
/// The tier that answers an operator, without running it, and for Refused the reason.
struct TierOf {
  Tier tier = Tier::Refused;
  std::string reason;
};
STATOR_API TierOf tier_of(const c10::OperatorHandle& op);
/// Whether it is answered for symbolic sizes. A composite is; the operators it calls answer for themselves.
STATOR_API bool takes_symbolic_sizes(const c10::OperatorHandle& op);

}  // namespace stator::fake
