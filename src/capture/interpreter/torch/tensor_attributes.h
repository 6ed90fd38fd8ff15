#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// An attribute of a tensor: metadata as constants, views as recorded operators, methods bound. Breaks for attributes
/// that would expose the fake (an address, a hook, ...). Null if there is no such attribute.
Value* tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name);
/// The same for the attribute of Tensor itself, even if a subclass overrides it.
Value* tensor_field(Interpreter& in, TensorValue* tensor, PyObject* name);
/// `tensor.name = to`.
void set_tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to);
/// A method of a tensor whose effect only a backward pass sees (a hook): the plan calls it when it ends. `method` is
/// its path, `what` names its result.
OpaqueValue* defer_on_tensor(Interpreter& in, const char* method, const char* what, const CallArgs& args);
/// Whether the tensor was not written to since the deferred call.
bool is_as_deferred(Interpreter& in, const OpaqueValue* made);
/// A call of `__get__` or `__set__` of such a field; null if it is none.
Value* call_tensor_field(Interpreter& in, PyObject* method, const CallArgs& args);
/// The model of Tensor.requires_grad_.
Value* tensor_requires_grad(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
