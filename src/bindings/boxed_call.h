#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "capture/pycompat/ref.h"

/// Operators called as Python functions. The caller holds the GIL.
namespace stator::bindings {

/// Calls `function` with the operator's arguments on top of the stack, as torch's Python kernels get them: arguments
/// that equal the schema's defaults are left out. Its result replaces them. False, with the stack unchanged, if it
/// returned NotImplemented. Throws if a Python exception is set.
bool call_boxed(PyObject* function, const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// The Python form of objects that are not plain data: generators, script objects, streams, symbolic numbers.
Ref object_of(const c10::IValue& value);

}  // namespace stator::bindings
