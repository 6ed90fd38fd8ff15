#pragma once

#include <vector>

#include "core/base/export.h"
#include "core/tracer/tracer.h"

namespace stator::tracer {

/// What became of a graph's inputs.
struct SizeInputs {
  std::vector<SizeTag> sizes;  // of the new first inputs: which size of which old input each is, or that it is an int
  std::vector<uint32_t> kept;  // the old inputs that follow them, by position
};

/// Gives a finished graph the symbolic sizes of its inputs as inputs of their own, of type int, before all others: the
/// form that Python backends take. Each symbol becomes one input. Nodes that read such a size off a tensor are removed,
/// and so are inputs that only such nodes read. Ints among the inputs go to the front, too. Floats become tensors
/// without dimensions, of which nodes read the number. Needs the fakes.
STATOR_API SizeInputs add_size_inputs(graph::Graph& graph);

}  // namespace stator::tracer
