#pragma once

#include <memory>

#include "capture/call/plan.h"

namespace stator::graph {
class Graph;
}
namespace stator::backend {
class Choice;
}

namespace stator::capture {

/// Runs what the native backend makes of the graph, with the GIL released. Throws what the backend throws.
std::unique_ptr<GraphRunner> make_native_runner(std::shared_ptr<const graph::Graph> graph,
                                                const backend::Choice& backend);
/// Calls what a Python backend made of the graph. Converts Python numbers among its results to zero-dimensional
/// tensors. The graph must still have its fakes.
std::unique_ptr<GraphRunner> make_python_runner(Ref callable, std::shared_ptr<const graph::Graph> graph);
/// Calls the runner with the inputs at these positions converted to the class `plain`.
std::unique_ptr<GraphRunner> make_runner_of_plain_tensors(std::unique_ptr<GraphRunner> runner,
                                                          std::vector<uint32_t> positions, PyObject* plain);
/// Whether an operator of the graph raises on these tensors in the reference executor. What the run wrote is undone;
/// false if the graph has writes that cannot be undone, or an input is not a tensor.
bool raises_in_reference(const std::shared_ptr<const graph::Graph>& graph, std::span<PyObject* const> tensors);

}  // namespace stator::capture
