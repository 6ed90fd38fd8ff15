#pragma once

#include <memory>

#include "capture/pycompat/ref.h"
#include "core/graph/graph.h"

namespace stator::bindings {

/// Adds `Graph`, `Value` and `Tracer` to the module; false with a Python exception set. Installs the tracer's hook.
bool add_graph_bindings(PyObject* module);

/// A new `_C.Graph` object for the graph, which must not change afterwards. Null with a Python exception set.
PyObject* wrap_graph(std::shared_ptr<graph::Graph> graph);
/// The graph of a `_C.Graph`; null (no exception set) for other objects.
std::shared_ptr<graph::Graph> unwrap_graph(PyObject* object);

}  // namespace stator::bindings
