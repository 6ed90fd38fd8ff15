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

/// Fake tensors: real `TensorImpl`s with the `Fake` key over a data-less storage on the true device.
/// They know sizes, strides, dtype, device, requires_grad and storage aliasing; reading data throws and poisons.
namespace stator::fake {

/// Registers the boxed fallback on the `Fake` key; called once at load. Returns an empty string, or why it
/// could not be done (then Stator runs everything eagerly with this reason).
STATOR_API std::string install();

STATOR_API bool is_fake(const at::Tensor& tensor);
/// A storage of fakes.
STATOR_API bool is_fake(const c10::Storage& storage);

/// Makes fakes of real tensors. Reals that share a storage give fakes that share one.
/// Lives as long as one capture; not thread-safe.
class STATOR_API FakeMode {
 public:
  FakeMode();
  ~FakeMode();
  /// Same sizes, strides, offset, dtype, device, requires_grad, conj/neg bits; always a leaf.
  /// Throws c10::Error for what has no fake (sparse, nested, quantised, subclass storage).
  at::Tensor from_real(const at::Tensor& real);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// RAII: the `Fake` key is in TLS, so factories and random ops make fakes and touch no generator.
class STATOR_API FakeScope {
 public:
  FakeScope();
  ~FakeScope();
  FakeScope(const FakeScope&) = delete;

 private:
  bool was_included_;
};

/// Thrown by shape functions for an op (or a use of it) that no tier gets right. The capture breaks there.
class STATOR_API Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Sticky per-thread flag: set, with a reason, whenever a fake's data was asked for or an op was refused,
/// so that no `except` in user code can hide it. Checked and cleared by whoever called into torch.
STATOR_API void poison(std::string reason);
STATOR_API bool is_poisoned();
STATOR_API std::string take_poison();
/// Storage accessors of libtorch throw without asking us, so whoever catches an exception out of torch hands its
/// text here: poisons and returns true when it is the one a fake's storage throws.
STATOR_API bool note_error(std::string_view what);

/// Which tier answered, counted since the last reset (process-wide).
/// `Composite`: the operator's own composite kernel ran on fakes, and its parts are counted too. `Python`: an operator
/// that a user registered, through the meta kernel that came with it; no operator of torch's own is served so.
enum class Tier : uint8_t { Own, Composite, CppMeta, Python, Refused };
struct TierCounts {
  uint64_t own = 0, composite = 0, cpp_meta = 0, python = 0, refused = 0;
};
STATOR_API TierCounts tier_counts();
STATOR_API void reset_tier_counts();
/// The tier that serves an operator ("aten::add.Tensor"), without running it, and for Refused the reason.
struct TierOf {
  Tier tier = Tier::Refused;
  std::string reason;
};
STATOR_API TierOf tier_of(const c10::OperatorHandle& op);

}  // namespace stator::fake
