#pragma once

#include <initializer_list>

#include "capture/interpreter/protocol/interpreter.h"

/// Special methods of a value's class, as operators call them.
namespace stator::capture {

/// Whether special methods must be looked up on the value's class. Values of built-in classes need no lookup.
bool has_special_methods(const Value* value);
/// Whether the classes of the operands decide: an instance, or a tensor of a class that overrides one of the methods.
/// Null entries of `methods` are ignored.
bool class_decides(Interpreter& in, Value* a, Value* b, std::initializer_list<const char*> methods);
/// A special method of an instance's class, bound; null if there is none. A method that is None is called, and fails,
/// except for those by which a class declares that it lacks the operation: these raise their own message.
Value* special_method(Interpreter& in, Value* value, const char* name);
/// The result of the method; null if there is none or it returns NotImplemented.
Value* ask_special(Interpreter& in, Value* self, const char* name, Value* argument);
/// Calls `__len__` of the class, which must have it.
Py_ssize_t special_length(Interpreter& in, Value* value);
/// Calls a class's `__bool__`, which must return a bool.
bool special_truth(Interpreter& in, Value* method);
/// The truth of an instance by its class's `__bool__` or `__len__`; true if it has neither.
bool truth_by_class(Interpreter& in, Value* value);

}  // namespace stator::capture
