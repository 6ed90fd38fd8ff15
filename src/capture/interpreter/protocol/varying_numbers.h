#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Varying numbers that are only computed with (counters, sums, averages), and lists of varying length that are only
/// appended to.
namespace stator::capture {

/// The result of an operator (a BinaryOp) of which one operand is such a number: the plan computes it, which can't
/// raise. Null for other operands.
Value* varying_result(Interpreter& in, int op, Value* a, Value* b);
/// Breaks if the value is such a result: its value is needed now.
void refuse_result(const Value* value);
/// Appends to a list that is guarded by type only; the plan does it when it ends. False for other values.
bool append_unseen(Interpreter& in, Value* list, Value* item);

}  // namespace stator::capture
