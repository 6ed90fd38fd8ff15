#pragma once

#include <vector>

#include "compile/pipeline.h"

namespace stator::bindings {

/// Calls a Python backend `(gm, example_inputs) -> callable` with a captured graph, and returns the runner for the
/// result. If the backend returns the unchanged module, or its `forward`, the graph runs natively. Null with a Python
/// error set if the backend raised, or returned something that cannot be called.
std::unique_ptr<capture::GraphRunner> call_backend(std::shared_ptr<graph::Graph> graph,
                                                   const std::vector<PyObject*>& inputs, const CompileRequest& request,
                                                   std::vector<BackendGuard>& guards);

}  // namespace stator::bindings
