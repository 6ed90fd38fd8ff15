#pragma once

#include <string>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// A distinct name for every value: its own where it has one, else one from the op that made it (`add`, `add_1`).
/// Linear; done when a graph is shown, so that recording builds no strings.
STATOR_API std::vector<std::string> value_names(const Graph& graph);

}  // namespace stator::graph
