#pragma once

#include <functional>

#include "capture/interpreter/protocol/interpreter.h"

/// Operators between a value of a built-in class and an instance.
namespace stator::capture {

/// What the operator method of `self`, a value of a built-in class, returns for an instance. Null: it has no such
/// method, or returns NotImplemented. `with_part` computes the operator with the built-in part of `other` in the
/// instance's place. Breaks if the result is not known.
using WithPart = std::function<Value*(Value* part)>;
Value* built_in_answer(Interpreter& in, const char* method, Value* self, Value* other, const WithPart& with_part);

/// Whether the class implements the method by a sequence slot only. CPython tries number slots of both sides first.
bool is_of_sequence(PyTypeObject* type, const char* method);

}  // namespace stator::capture
