#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/// The operators of BINARY_OP: the meaning of its `Instr::arg`.
namespace stator::pycompat {

enum BinaryOp : int {
  kAdd,
  kAnd,
  kFloorDivide,
  kLeftShift,
  kMatrixMultiply,
  kMultiply,
  kRemainder,
  kOr,
  kPower,
  kRightShift,
  kSubtract,
  kTrueDivide,
  kXor,
  kInPlace,  // the in-place forms start here, in the same order
};

constexpr bool is_in_place(int op) { return op >= kInPlace; }
/// The operator of an in-place form (`+` for `+=`); a plain operator itself.
constexpr int plain_form(int op) { return is_in_place(op) ? op - kInPlace : op; }

/// CPython's function for an operator; null if `op` is not an operator.
binaryfunc binary_function(int op);

}  // namespace stator::pycompat
