#pragma once

#include "capture/interpreter/interpreter.h"

/// What containers mean by equal: the same object, or one that `==` says is equal.
namespace stator::capture {

/// Breaks where identity decides and is not known: two values that do not equal themselves (nan) of which the guards
/// only tell the bits.
bool same_or_equal(Interpreter& in, Value* a, Value* b);
/// Of two values that `==` tells apart: whether they are one object all the same. Breaks as above.
bool same_though_unequal(Interpreter& in, Value* a, Value* b);
/// Whether the classes of two values say nothing of each other under this comparison (Py_LT ...): by identity they are
/// equal or not, and have no order. False where that is not known.
bool are_strangers(Interpreter& in, int op, Value* a, Value* b);
/// Breaks for a literal that does not equal itself.
void refuse_unequal_to_itself(PyObject* literal);

/// A tuple, and not what an instance of a subclass has of one.
bool is_exact_tuple(const SequenceValue* sequence);

}  // namespace stator::capture
