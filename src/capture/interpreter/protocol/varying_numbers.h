#pragma once

#include <optional>

#include "capture/interpreter/protocol/interpreter.h"

/// Varying numbers that are only computed with (counters, sums, averages), and lists of varying length that are only
/// appended to. Varying numbers are inputs of the graph where operators need them; where the program compares one, the
/// answer is guarded.
namespace stator::capture {

/// The result of an operator (a BinaryOp) of which one operand is such a number: the plan computes it, which can't
/// raise. Null for other operands.
Value* varying_result(Interpreter& in, int op, Value* a, Value* b);
/// The graph number of a varying number, or of one computed from such: a symbolic number that is an input of the graph
/// or computed from inputs. Returns the value unchanged if it does not vary or cannot be a graph input (an int over 64
/// bits).
Value* graph_number(Interpreter& in, Value* value);
/// Replaces an operand by its graph number, if the other is a tensor or a symbolic number.
void number_operands(Interpreter& in, Value*& a, Value*& b);
/// Replaces two operands, both numbers, by their graph numbers. False if neither has one.
bool make_numbers(Interpreter& in, Value*& a, Value*& b);
/// The result of comparing (Py_LT ...) a varying float with a known number, or a varying number with something that
/// never equals a number. The guard asserts the result, not the value. Empty for other operands.
std::optional<bool> varying_comparison(Interpreter& in, int op, Value* a, Value* b);
/// The model of `float(value)` and `int(value)`: a varying number of that class is returned as it is. Null for other
/// values.
Value* varying_as(Interpreter& in, Value* value, PyTypeObject* type);
/// Breaks if the value is computed from varying numbers: its value is needed now. The break names these.
void refuse_result(Interpreter& in, Value* value);
/// Appends to a list that is guarded by type only; the plan does it when it ends. False for other values.
bool append_unseen(Interpreter& in, Value* list, Value* item);

}  // namespace stator::capture
