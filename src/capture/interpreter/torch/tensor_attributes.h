#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// An attribute of a tensor: metadata as constants, views as recorded operators, methods bound; breaks for what would
/// show a fake's inside (an address, a hook, ...). Null when there is none.
Value* tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name);
/// The same of what Tensor itself has under that name, whatever a subclass makes of it.
Value* tensor_field(Interpreter& in, TensorValue* tensor, PyObject* name);
/// `tensor.name = to`.
void set_tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to);
/// A method of a tensor whose effect is only seen by a backward pass (a hook): the plan calls it when it ends. `method`
/// is its path, `what` names its result.
OpaqueValue* defer_on_tensor(Interpreter& in, const char* method, const char* what, const CallArgs& args);
/// Whether the tensor is still the one that the call was made on: nothing has been written to it since.
bool is_as_deferred(Interpreter& in, const OpaqueValue* made);
/// A call of `__get__` or `__set__` of a field that the bindings describe; null if it is none.
Value* call_tensor_field(Interpreter& in, PyObject* method, const CallArgs& args);
/// The model of Tensor.requires_grad_.
Value* tensor_requires_grad(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
