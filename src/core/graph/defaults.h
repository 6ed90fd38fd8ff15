#pragma once

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// Whether two constants cannot be told apart: same kind, same value, -0.0 and 0.0 distinct, all NaNs alike.
/// Tensors are never the same.
STATOR_API bool same_constant(const c10::IValue& a, const c10::IValue& b);

/// How much of a node's arguments must be written down, the rest being the schema's defaults.
struct NeededArguments {
  size_t positional = 0;         // leading arguments to write by position
  std::vector<size_t> keywords;  // keyword-only arguments that are no defaults
};
STATOR_API NeededArguments needed_arguments(const Node& node);

}  // namespace stator::graph
