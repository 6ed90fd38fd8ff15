#pragma once

#include <cstdint>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// Where a graph may fail for its numbers (a division by zero, an assumption about data) after something that cannot be
/// taken back, what may fail is done first, as far as the program's own order allows it; numbers that operators refuse
/// when a dtype does not hold them are looked at beforehand. Needs the fakes. Gives the earlier index of each node, or,
/// of one that is new, that of the node it serves; nothing where the graph stays as it was.
STATOR_API std::vector<uint32_t> check_early(graph::Graph& graph);

/// The dtypes that a number has to fit for an operator that refuses others, and takes all that fit; empty for other
/// operators.
STATOR_API std::vector<at::ScalarType> fitting_dtypes(const graph::Graph& graph, const graph::Node& node);

/// The numbers that the node takes as plain ones.
STATOR_API std::vector<graph::ValueId> plain_numbers(const graph::Node& node);

}  // namespace stator::backend
