#pragma once

#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"

/// Shape functions of backward operators `(grad, input, ...)` that return the gradient of the input.
namespace stator::fake {

/// A row-major gradient.
inline void contiguous_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

/// A gradient in the memory format that the input suggests.
inline void gradient_in_input_format(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(1);
  args.returns(new_like(input, suggested_format(input)));
}

/// The same on the CPU. CUDA kernels give a row-major gradient.
inline void gradient_in_cpu_input_format(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (Args(op, stack).tensor(1).is_cuda()) return contiguous_gradient(op, stack);
  gradient_in_input_format(op, stack);
}

}  // namespace stator::fake
