#pragma once

#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/tracer/tracer.h"

namespace stator::tracer {

/// Copies the nodes from the `mark`-th on into a new graph. Values that these nodes did not make become its
/// inputs, in the order of their first use; its outputs are those of `outputs` (values of the outer graph, and their
/// tensors) that these nodes made. `state`: the state, in the outer graph, in which the node that represents the part
/// will run.
using Output = std::pair<graph::ValueId, at::Tensor>;
Tracer::Part copy_part(const graph::Graph& outer, size_t mark, const std::vector<Output>& outputs, uint32_t state);

}  // namespace stator::tracer
