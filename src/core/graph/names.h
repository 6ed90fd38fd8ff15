#pragma once

#include <string>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// A distinct name for every value: its own if it has one, otherwise one from its operator (`add`, `add_1`).
/// Linear. Called when a graph is printed, so that recording builds no strings.
STATOR_API std::vector<std::string> value_names(const Graph& graph);

}  // namespace stator::graph
