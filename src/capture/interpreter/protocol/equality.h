#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Equality as containers use it: the same object, or equal by `==`.
namespace stator::capture {

/// Breaks if identity decides and is not known: for literals that don't equal themselves (nan), which are guarded by
/// value only.
bool same_or_equal(Interpreter& in, Value* a, Value* b);
/// For two values that are unequal by `==`: whether they are the same object. Breaks as above.
bool same_though_unequal(Interpreter& in, Value* a, Value* b);
/// Whether neither class has this comparison (Py_LT ...) for the other: then identity decides equality, and there is no
/// order. False if that is not known.
bool compare_by_identity(Interpreter& in, int op, Value* a, Value* b);
/// Breaks for a literal that does not equal itself.
void refuse_unequal_to_itself(PyObject* literal);

/// Whether it is a tuple itself, and not the tuple part of an instance of a subclass.
bool is_exact_tuple(const SequenceValue* sequence);

}  // namespace stator::capture
