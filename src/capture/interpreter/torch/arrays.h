#pragma once

#include "capture/interpreter/protocol/models.h"

/// NumPy in a captured program: an array is represented by a tensor, a call by one of `torch._numpy`. The Python module
/// `stator.arrays` makes the calls; it is imported when the first array is met.
namespace stator::capture {

/// The value of an external array; null if no tensor can share its memory.
Value* wrap_array(Interpreter& in, PyObject* array, Source* source);
/// The value of an array object that `stator.arrays` returned; null for any other object.
Value* array_result(Interpreter& in, PyObject* object);

/// Models of the methods that lead from tensors to arrays and back.
std::span<const ModelRow> array_models();
/// Functions, number classes and methods of NumPy.
bool is_numpy_callable(PyObject* callable);
Value* call_numpy(Interpreter& in, PyObject* callable, const CallArgs& args);
/// Calls an array's method by name.
Value* array_method(Interpreter& in, const char* name, std::vector<Value*> arguments);
/// A binary operator of which one operand is an array: `method` of the first, or `reflected` of the second.
Value* array_binary(Interpreter& in, const char* method, const char* reflected, Value* a, Value* b);
Value* array_attribute(Interpreter& in, ArrayValue* array, PyObject* name);
PyTypeObject* array_type(Interpreter& in, ArrayValue* array);
/// The fake that represents an array.
PyObject* array_fake(Interpreter& in, ArrayValue* array);
/// The function with which a plan makes the array from the tensor that represents it.
PyObject* array_maker(Interpreter& in, ArrayValue* array);

/// torch.from_numpy and the like.
Value* tensor_of_array(Interpreter& in, ArrayValue* array, bool copy);
/// A tensor from an array or tensor that is passed as data; `copy`: with its own memory. Null for any other value.
Value* tensor_of_data(Interpreter& in, Value* data, bool copy);

}  // namespace stator::capture
