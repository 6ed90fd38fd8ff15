#pragma once

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// Whether two constants are indistinguishable: same type, same value; -0.0 and 0.0 differ, all NaNs are equal.
/// Tensors are never the same.
STATOR_API bool same_constant(const c10::IValue& a, const c10::IValue& b);

/// The arguments of a node that must be written; the others equal the schema's defaults.
struct NeededArguments {
  size_t positional = 0;         // leading arguments to write by position
  std::vector<size_t> keywords;  // keyword-only arguments that differ from their defaults
};
STATOR_API NeededArguments needed_arguments(const Node& node);

}  // namespace stator::graph
