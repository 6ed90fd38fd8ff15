#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Callables that users marked, by torch's names or by ours: substituted, disabled, disallowed, constant.
namespace stator::capture {

/// What users gave to be captured in place of a callable, or what torch.compile compiled; null: the callable itself.
/// Breaks for callables that they disallowed.
Value* substitute_of(Interpreter& in, Value* callee);
/// Breaks for functions that `disable` marked, in torch's way or ours. Torch's other compiler marks parts of the
/// optimizers for itself as soon as it is used: for those it gives the original, to be captured. Null for all others.
PyObject* unless_disabled(PyObject* function);
/// Whether the function's author declared its result to be the same for as long as the process lives.
bool is_marked_constant(PyObject* function);
/// Calls such a function now, on the objects themselves; the result is a constant of the program.
Value* call_marked_constant(Interpreter& in, FunctionValue* function, const CallArgs& args);

}  // namespace stator::capture
