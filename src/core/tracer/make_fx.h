#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"
#include "core/tracer/function_tracer.h"

namespace stator {

/// A traced function: the graph, and the tensors from outside that it uses. The graph takes the inputs of the function,
/// then the attributes.
struct TracedFunction {
  std::shared_ptr<graph::Graph> graph;
  std::vector<at::Tensor> attributes;
};

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Calls the function once on the inputs and returns the operators that ran, below autograd unless the options say
/// otherwise. Throws fake::Unsupported, with the reason, for a function that cannot be traced; what the function throws
/// goes on.
STATOR_API TracedFunction make_fx(const TensorFunction& function, const std::vector<at::Tensor>& inputs,
                                  tracer::FunctionTracerOptions options = {});

}  // namespace stator
