#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "core/base/export.h"
#include "core/shapes/expression.h"

/// The operators that graphs compute numbers with. A number is a tensor without dimensions on the CPU (int64, float64
/// or bool) that type promotion treats as a Python number; wherever an operator takes a plain number, its value is
/// read.
///
///   stator::item(Tensor self) -> Tensor             the one element of a tensor
///   stator::size(Tensor self, int dim) -> Tensor
///   stator::number(str op, Scalar a, Scalar b=0) -> Tensor   Python's `a op b`
///   stator::fits(Scalar number, ScalarType dtype) -> ()      raises unless it is a finite number of the dtype
///   stator::distinct(Tensor[] tensors) -> ()        raises where two of them share memory
///
/// `number` raises where Python does, and where 64 bits do not hold the result: the program itself runs then.
namespace stator::shapes {

/// Defines them; what follows does so by itself.
STATOR_API void install_number_ops();
STATOR_API const c10::OperatorHandle& item_op();
STATOR_API const c10::OperatorHandle& size_op();
STATOR_API const c10::OperatorHandle& number_op();
STATOR_API const c10::OperatorHandle& fits_op();
STATOR_API const c10::OperatorHandle& distinct_op();
/// Whether the operator is one of those.
STATOR_API bool is_number_op(const c10::OperatorHandle& op);
/// Of the value that such an operator gives for an element of this dtype; none for complex ones.
STATOR_API std::optional<at::ScalarType> number_dtype(at::ScalarType dtype);

/// The tensor that stands for a number in a graph.
STATOR_API at::Tensor number_tensor(const Number& number);
/// The plain number that a number tensor holds.
STATOR_API c10::IValue plain_number(const at::Tensor& number);

}  // namespace stator::shapes
