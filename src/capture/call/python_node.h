#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "capture/call/call_node.h"
#include "capture/pycompat/ref.h"

/// `stator::call(Tensor[] tensors, Any callable) -> Tensor[]`: an operator that calls a Python object with the tensors
/// and expects a tuple of tensors. It is used for what only Python code can do, such as giving a result the backward of
/// a `torch.autograd.Function`.
namespace stator::capture {

/// Registers the operator. Called once, at import.
void install_python_node();
const c10::OperatorHandle& python_node(CallNode kind);

/// The object as a constant in a graph, which owns it. Needs the GIL; the result may be destroyed without it.
c10::IValue held_object(PyObject* object);

/// Throws the Python error that is set through C++ frames: torch's bindings set it again.
[[noreturn]] void throw_python_error();

}  // namespace stator::capture
