#pragma once

#include "capture/interpreter/interpreter.h"

/// NumPy in a captured program: its arrays stand for tensors, its functions for their twins in `torch._numpy`. The
/// Python module `stator.arrays` makes each call; it is loaded when the first array is met.
namespace stator::capture {

/// An array from outside as a value, or null when no tensor can have its memory.
Value* wrap_array(Interpreter& in, PyObject* array, Source* source);
/// The value of an object of `stator.arrays`, which calls give; null for anything else.
Value* array_result(Interpreter& in, PyObject* object);

/// Functions, number classes and methods of NumPy.
bool is_numpy_callable(PyObject* callable);
Value* call_numpy(Interpreter& in, PyObject* callable, const CallArgs& args);
/// A method by name, as operators call it.
Value* array_method(Interpreter& in, const char* name, std::vector<Value*> arguments);
/// a operator b, where one of them is an array: `method` of the first, or `reflected` of the second.
Value* array_binary(Interpreter& in, const char* method, const char* reflected, Value* a, Value* b);
Value* array_attribute(Interpreter& in, ArrayValue* array, PyObject* name);
PyTypeObject* array_type(Interpreter& in, ArrayValue* array);
/// The fake behind an array.
PyObject* array_fake(Interpreter& in, ArrayValue* array);
/// What makes the program's object of the tensor behind an array when a plan ends.
PyObject* array_maker(Interpreter& in, ArrayValue* array);

/// torch.from_numpy and the like.
Value* tensor_of_array(Interpreter& in, ArrayValue* array, bool copy);
/// An array or tensor in the place of data: a tensor that shares its memory, or (copy) does not. Null: neither.
Value* tensor_of_data(Interpreter& in, Value* data, bool copy);

}  // namespace stator::capture
