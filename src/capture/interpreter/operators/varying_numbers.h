#pragma once

#include "capture/interpreter/interpreter.h"

/// Numbers that change from call to call and are only computed with: counters, sums, averages. And lists whose length
/// does, which are only appended to.
namespace stator::capture {

/// The result of the operator (a BinaryOp) where one of the operands is such a number: made when the plan ends, and
/// known to raise nothing. Null for anything else.
Value* varying_result(Interpreter& in, int op, Value* a, Value* b);
/// Breaks if the value is such a result: it is looked at.
void refuse_result(const Value* value);
/// Appends to a list that is known by its class alone, when the plan ends; false for other values.
bool append_unseen(Interpreter& in, Value* list, Value* item);

}  // namespace stator::capture
