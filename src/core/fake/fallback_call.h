#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>

#include "core/fake/composite.h"
#include "core/fake/fake_tensor.h"
#include "core/fake/rule.h"

namespace stator::fake {

/// How calls of one operator on fakes are answered. Decided at the first call and kept.
struct FallbackCall {
  const c10::FunctionSchema* schema = nullptr;
  Tier tier = Tier::Refused;
  Rule rule = nullptr;  ///< tiers Own, CppMeta, Python
  std::string reason;   ///< tier Refused
  /// Autograd decomposes this composite, so the `Fake` key gets its parts. It arrives as one call only where autograd
  /// is off (inference mode). Observers are then told of its parts as well, not of the one call.
  bool is_decomposed_by_autograd = false;
  /// A composite that has a separate kernel for CUDA. The metadata of that kernel's results is not known.
  bool differs_on_cuda = false;
  const CompositeAnswer* composite = nullptr;
  Rule cuda = nullptr;             ///< every tier: for calls with a CUDA tensor
  Rule symbolic = nullptr;         ///< tiers Composite, CppMeta: for symbolic sizes and numbers
  bool takes_plain_sizes = false;  ///< the trait PlainSizes
  /// An `out=` overload without a shape function of its own: the overload that answers for it.
  std::optional<c10::OperatorHandle> functional = std::nullopt;
  /// Bit i: argument i may hold tensors. Bit 31 stands for argument 31 and all later ones.
  uint32_t tensor_args = 0;
  uint32_t arg_count = 0;
};

/// For an `out=` or in-place overload: the shape function of the overload that returns new tensors; null if there is
/// none.
Rule symbolic_form(const c10::OperatorHandle& op);

/// Takes no lock after the first call for an operator.
const FallbackCall& fallback_call(const c10::OperatorHandle& op);

}  // namespace stator::fake
