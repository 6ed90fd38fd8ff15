#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

/// The tier of torch's own C++ shape functions (`at::meta::...`). They are called directly on meta twins of the fakes,
/// not through the dispatcher, whose Meta key leads to Python kernels that are slower and less exact.
namespace stator::fake {

/// Whether torch has a C++ shape function for the operator.
bool has_meta_kernel(const c10::OperatorHandle& op);
/// A `Rule` (rule.h) that calls the operator's C++ shape function. Results are fakes on the arguments' device; a
/// written argument is returned as itself, resized if the shape function resized its twin.
void run_meta_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Whether the operator belongs to a library other than torch's own.
bool is_registered_by_user(const c10::OperatorHandle& op);
/// Whether it comes with a kernel for the Meta key, in C++ or Python. Libraries may add one at any time.
bool brings_meta_kernel(const c10::OperatorHandle& op);
/// A `Rule` that calls that kernel on meta twins; refuses if there is none. Sizes, strides and dtypes are those that
/// the kernel gives.
void run_registered_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Fills the table of C++ shape functions. Called once, by `install`.
void register_meta_tier();

}  // namespace stator::fake
