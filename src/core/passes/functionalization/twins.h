#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

namespace stator::passes {

/// The form of a writing operator that returns the new contents of what it would write to.
struct Twin {
  c10::OperatorHandle op;
  std::vector<size_t> arguments;  // by argument of the twin: the argument of the writing operator
  std::vector<size_t> written;    // by argument that is written, in order: the return of the twin with its new contents
  std::vector<size_t> fresh;      // by return of the writing operator that is not an argument: the return of the twin
};

/// The twin that the names and schemas of torch's operators give: `add` of `add_`, `add.Tensor` of `add.out`,
/// `_native_batch_norm_legit_functional` of `_native_batch_norm_legit`. Null if there is none. Cached.
const Twin* find_twin(const c10::OperatorHandle& op);

}  // namespace stator::passes
