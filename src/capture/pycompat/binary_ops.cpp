#include "capture/pycompat/binary_ops.h"

#include <opcode.h>

#include <iterator>

namespace stator::pycompat {
namespace {

static_assert(kAdd == NB_ADD && kXor == NB_XOR && kInPlace == NB_INPLACE_ADD && kInPlace + kXor == NB_INPLACE_XOR);

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* in_place_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

constexpr binaryfunc kFunctions[] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    in_place_power,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

}  // namespace

binaryfunc binary_function(int op) {
  return op >= 0 && op < static_cast<int>(std::size(kFunctions)) ? kFunctions[op] : nullptr;
}

}  // namespace stator::pycompat
