#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <variant>

#include "core/base/export.h"
#include "core/shapes/number.h"

/// The operators with which graphs compute numbers. A number is a tensor without dimensions on the CPU (int64, float64
/// or bool) with the wrapped-number flag, so that type promotion treats it as a Python number. Where an operator takes
/// a plain number, its value is read.
///
///   stator::item(Tensor self) -> Tensor             the only element of a tensor
///   stator::size(Tensor self, int dim) -> Tensor
///   stator::stride(Tensor self, int dim) -> Tensor
///   stator::number(str op, Scalar a, Scalar b=0) -> Tensor   Python's `a op b`
///   stator::choose(Scalar condition, Scalar a, Scalar b) -> Tensor   `a if condition else b`
///   stator::fits(Scalar number, ScalarType dtype) -> ()      raises unless the dtype holds the number
///   stator::between(Scalar number, float low, float high) -> ()   raises unless low < number < high
///   stator::distinct(Tensor[] tensors) -> ()        raises if two of them share memory
///
/// `number` raises if Python would, or if the result does not fit 64 bits. The program itself runs then.
namespace stator::shapes {

using Number = std::variant<int64_t, double, bool>;

/// Registers the operators. The functions below call it.
STATOR_API void install_number_ops();
STATOR_API const c10::OperatorHandle& item_op();
STATOR_API const c10::OperatorHandle& size_op();
STATOR_API const c10::OperatorHandle& stride_op();
STATOR_API const c10::OperatorHandle& number_op();
STATOR_API const c10::OperatorHandle& choose_op();
STATOR_API const c10::OperatorHandle& fits_op();
STATOR_API const c10::OperatorHandle& between_op();
STATOR_API const c10::OperatorHandle& distinct_op();
/// Whether the operator is one of the above.
STATOR_API bool is_number_op(const c10::OperatorHandle& op);
/// The dtype of the number that `stator::item` makes of an element of `dtype`. None for complex dtypes.
STATOR_API std::optional<at::ScalarType> number_dtype(at::ScalarType dtype);

/// The tensor that represents a number in a graph.
STATOR_API at::Tensor number_tensor(const Number& number);
/// A plain number out of a dispatcher's stack.
STATOR_API Number to_number(const c10::IValue& plain);
/// The plain number that a number tensor holds.
STATOR_API c10::IValue plain_number(const at::Tensor& number);

}  // namespace stator::shapes
