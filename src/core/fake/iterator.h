#pragma once

#include "core/fake/rule.h"

/// What torch's TensorIterator decides for an elementwise operation: shape, dtype, device, layout of a new output.
namespace stator::fake {

/// The tensor operands of one elementwise call, without outputs. Pointers into the stack.
using Inputs = c10::SmallVector<const at::Tensor*, 4>;

/// The dtype all inputs are promoted to. `scalars` take part as wrapped numbers do.
at::ScalarType common_dtype(const Inputs& inputs, c10::ArrayRef<at::Scalar> scalars = {});
/// The device of the result. Zero-dimensional CPU tensors may be mixed with tensors of another device; other mixtures
/// throw.
c10::Device common_device(const Inputs& inputs);

/// A new output: broadcast shape, strides in the order of the inputs' strides.
at::Tensor iterate(const Inputs& inputs, at::ScalarType dtype, c10::Device device);
/// CPU kernels convert inputs whose dtype is not `computed` before the layout is chosen, and a converted copy is dense.
/// Replaces the inputs whose layout this changes by fakes of their copies, which `converted` owns.
void convert_inputs(Inputs& inputs, at::ScalarType computed, c10::SmallVector<at::Tensor, 4>& converted);

/// Gives an `out=` argument the broadcast shape. If it is resized, it gets the strides of a new output.
void iterate_out(const at::Tensor& out, const Inputs& inputs);
/// Throws unless the target of an in-place operation has the broadcast shape.
void iterate_in_place(const at::Tensor& self, const Inputs& inputs);

/// Strides of a dense tensor with the same sizes and the same order of dimensions in memory.
Dims dense_strides(const at::Tensor& tensor);
/// The broadcast of all the inputs' sizes.
Dims broadcast_sizes(const Inputs& inputs);

}  // namespace stator::fake
