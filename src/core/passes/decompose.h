#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::passes {

struct DecomposeOptions {
  /// Which operators: `aten::gelu` (all its overloads) or `aten::add.Tensor`. None: all that have a decomposition.
  std::optional<std::unordered_set<std::string>> names;
};

struct STATOR_API Decomposed {
  std::shared_ptr<graph::Graph> graph;
  std::map<std::string, size_t> replaced;  // by operator: nodes that were decomposed
  std::map<std::string, size_t> left;      // by operator: nodes that were named, and have no decomposition here
};

/// Replaces nodes by what their decompositions call, until no operator is left that has one. Nodes above autograd that
/// take part in gradients or run under autocast are left: their decomposition is for use below autograd.
STATOR_API Decomposed decompose(const graph::Graph& graph, const DecomposeOptions& options = {});

/// The operators with a native decomposition: `aten::gelu`, `aten::addcmul.out`, ...; sorted.
STATOR_API std::vector<std::string> decomposition_names();

}  // namespace stator::passes
