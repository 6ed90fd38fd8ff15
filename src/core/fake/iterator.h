#pragma once

#include "core/fake/rule.h"

/// What TensorIterator decides for an elementwise operation: shape, dtype, device, and the layout of a new output.
namespace stator::fake {

/// The tensor operands of one elementwise call, without outputs. Small; pointers into the stack.
using Inputs = c10::SmallVector<const at::Tensor*, 4>;

/// The dtype all inputs are promoted to. `scalars` take part as wrapped numbers do.
at::ScalarType common_dtype(const Inputs& inputs, c10::ArrayRef<at::Scalar> scalars = {});
/// The device of the result: zero-dimensional CPU tensors follow the others. Throws when devices differ.
c10::Device common_device(const Inputs& inputs);

/// A new output: broadcast shape, strides in the order of the inputs' strides.
at::Tensor iterate(const Inputs& inputs, at::ScalarType dtype, c10::Device device);
/// On the CPU, inputs of another dtype than `computed` are converted before the layout is chosen, and a converted
/// copy is dense. Replaces those whose layout changes; the copies live in `converted`.
void convert_inputs(Inputs& inputs, at::ScalarType computed, c10::SmallVector<at::Tensor, 4>& converted);

/// Gives an `out=` argument the broadcast shape, with those strides if it has another one now.
void iterate_out(const at::Tensor& out, const Inputs& inputs);
/// Checks that an in-place operation's target has the broadcast shape.
void iterate_in_place(const at::Tensor& self, const Inputs& inputs);

/// Dense strides in the order of the tensor's own strides.
Dims dense_strides(const at::Tensor& tensor);
/// The broadcast of all the inputs' sizes.
Dims broadcast_sizes(const Inputs& inputs);

}  // namespace stator::fake
