#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// An attribute of a tensor: metadata as constants, views as recorded operators, methods bound. Breaks for attributes
/// that would expose the fake (an address, a hook, ...). Null if there is no such attribute.
Value* tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name);
/// The same for the attribute of Tensor itself, even if a subclass overrides it.
Value* tensor_field(Interpreter& in, TensorValue* tensor, PyObject* name);
/// Breaks if `callable` is a method of Tensor, found on the class or bound before, that exposes the fake it is called
/// with, as `tensor_field` does for the name.
void refuse_tensor_method(PyObject* callable, const CallArgs& args);
/// `tensor.name = to`.
void set_tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to);
/// Defers a call of a tensor's method to the end of the plan. For methods whose effect only a backward pass sees (a
/// hook is registered). `method` is the path of the method, `what` names its result in messages.
OpaqueValue* defer_on_tensor(Interpreter& in, const char* method, const char* what, const CallArgs& args);
/// Whether the tensor of a deferred call still has the `grad_fn` that it had at the call. An in-place operator since
/// then would have replaced it.
bool is_as_deferred(Interpreter& in, const OpaqueValue* made);
/// Models `Tensor.field.__get__(tensor)` and `Tensor.field.__set__(tensor, to)`, for a field that torch's bindings
/// define (`Tensor.grad`). `method` is the bound method `Tensor.field.__get__` or `__set__`. Null for all other calls.
Value* call_tensor_field(Interpreter& in, PyObject* method, const CallArgs& args);
/// The model of Tensor.requires_grad_.
Value* tensor_requires_grad(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
