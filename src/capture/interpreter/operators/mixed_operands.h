#pragma once

#include <functional>

#include "capture/interpreter/interpreter.h"

/// Operators between a value of a built-in class and an instance.
namespace stator::capture {

/// What the built-in class of `self` answers to an operator's method with an instance on the other side. Null where it
/// has no such method, or leaves it to the other one. `with_part` works the operator out with the part of `other` that
/// is of a built-in class, in the instance's place. Breaks where the answer is not known.
using WithPart = std::function<Value*(Value* part)>;
Value* built_in_answer(Interpreter& in, const char* method, Value* self, Value* other, const WithPart& with_part);

/// Whether instances of a class answer to the method as sequences do, which are asked after both sides were.
bool is_of_sequence(PyTypeObject* type, const char* method);

}  // namespace stator::capture
