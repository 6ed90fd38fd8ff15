#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/// The operators of BINARY_OP: what `Instr::arg` of one means.
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
  kInPlace,  // from here on the in-place forms of the same, in the same order
};

constexpr bool is_in_place(int op) { return op >= kInPlace; }
/// The operator without its `=`, if it has one.
constexpr int plain_form(int op) { return is_in_place(op) ? op - kInPlace : op; }

/// What CPython does for an operator; null for a number that is none.
binaryfunc binary_function(int op);

}  // namespace stator::pycompat
