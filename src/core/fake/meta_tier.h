#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

/// The tier of torch's own C++ shape functions (`at::meta::...`), called directly on meta twins of the fakes: past
/// the dispatcher, whose Meta key answers with Python kernels that are slower and less exact.
namespace stator::fake {

/// A rule (see rule.h): answers through the operator's C++ shape function. Results are fakes on the arguments' device;
/// a written argument is returned as itself, resized where the shape function resized its twin.
void run_meta_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// An operator of a library other than torch's own.
bool is_registered_by_user(const c10::OperatorHandle& op);
/// Whether it comes with a kernel for the Meta key, in C++ or Python. Libraries may add one at any time.
bool brings_meta_kernel(const c10::OperatorHandle& op);
/// A rule: answers through that kernel, on meta twins; refuses where there is none. The kernel's word is taken for
/// sizes, strides and dtypes.
void run_registered_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Puts all the shape functions in the meta tier's table.
void register_meta_tier();

}  // namespace stator::fake
