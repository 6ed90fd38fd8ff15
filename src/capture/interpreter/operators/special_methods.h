#pragma once

#include <initializer_list>

#include "capture/interpreter/interpreter.h"

/// Special methods of a value's class, as the operators of the language ask for them.
namespace stator::capture {

/// What a class or one of its bases has under that name; borrowed, null if nothing. Adds no guard.
PyObject* class_lookup(PyTypeObject* type, const char* name);
/// Whether the value has special methods that are asked one by one: a built-in class's answers are known.
bool has_special_methods(const Value* value);
/// Operands whose classes decide: instances, and tensors of a class that has a method of its own for the operator.
/// Methods that are null are none.
bool is_by_class(Interpreter& in, Value* a, Value* b, std::initializer_list<const char*> methods);
/// A special method of an instance's class as a bound value, or null. One that is None is called like any other, but
/// for those by which a class says that it has none, each in words of its own.
Value* special_method(Interpreter& in, Value* value, const char* name);
/// Whether a method gave NotImplemented, and so leaves the answer to others.
bool is_not_implemented(Interpreter& in, Value* result);
/// What the method gives, or null where there is none or it leaves the answer to others.
Value* ask_special(Interpreter& in, Value* self, const char* name, Value* argument);
/// `__len__` of the class, which must have one.
Py_ssize_t special_length(Interpreter& in, Value* value);
/// What a class's `__bool__` gives: nothing but a bool will do.
bool special_truth(Interpreter& in, Value* method);
/// By the class's `__bool__` or `__len__`, if it has one.
bool truth_by_class(Interpreter& in, Value* value);

}  // namespace stator::capture
