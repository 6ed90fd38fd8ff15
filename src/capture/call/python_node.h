#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>

#include "capture/call/call_node.h"
#include "capture/pycompat/ref.h"

namespace stator::graph {
class Graph;
}

/// `stator::call(Tensor[] tensors, Any callable) -> Tensor[]`: a node that calls a Python object with the tensors and
/// gets a tuple of tensors. It stands for what only torch's own Python side can do, such as giving a result the
/// backward of a `torch.autograd.Function`.
namespace stator::capture {

/// Defines the operator; once, at load.
void install_python_node();
const c10::OperatorHandle& python_node(CallNode kind);

/// A graph as a Python object that can be called with tensors. The maker is given once, at load.
using GraphObject = Ref (*)(std::shared_ptr<graph::Graph> graph);
void set_graph_object(GraphObject maker);
Ref graph_object(std::shared_ptr<graph::Graph> graph);

/// The object as a constant of a graph, which owns it. The GIL must be held; it may be let go of without it.
c10::IValue held_object(PyObject* object);

}  // namespace stator::capture
