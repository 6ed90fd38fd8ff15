#pragma once

#include <vector>

#include "compile/pipeline.h"

namespace stator::bindings {

/// Hands a captured graph to a Python backend `(gm, example_inputs) -> callable` and gives what will run it.
/// A backend that returns the untouched module, or its `forward`, is run natively. Null with a Python error set when
/// the backend raised or gave back something that cannot be called.
std::unique_ptr<capture::GraphRunner> call_backend(std::shared_ptr<graph::Graph> graph,
                                                   const std::vector<PyObject*>& inputs, const CompileRequest& request);

}  // namespace stator::bindings
