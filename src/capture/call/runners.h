#pragma once

#include <memory>

#include "capture/call/plan.h"

namespace stator::graph {
class Graph;
}

namespace stator::capture {

/// Runs the graph through the reference executor, with the GIL released.
std::unique_ptr<GraphRunner> make_native_runner(std::shared_ptr<const graph::Graph> graph);
/// Calls a Python backend's callable; plain numbers among its results count as tensors without dimensions.
std::unique_ptr<GraphRunner> make_python_runner(Ref callable, size_t outputs);

}  // namespace stator::capture
