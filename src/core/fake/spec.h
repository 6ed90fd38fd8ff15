#pragma once

#include <c10/core/WrapDimMinimal.h>

#include "core/fake/rule.h"

/// Shape functions of operators that return new tensors: one function from the arguments to the specs of the results
/// gives that of the functional overload (`make_results`) and that of the `out=` overload (`fill_outs`).
namespace stator::fake {

struct Spec {
  Dims sizes;
  at::ScalarType dtype;
  c10::Device device;
  /// Absent: row-major.
  std::optional<Dims> strides = std::nullopt;
};
using Specs = c10::SmallVector<Spec, 2>;

inline at::Tensor make(const Spec& spec) {
  return spec.strides ? make_fake(spec.sizes, *spec.strides, spec.dtype, spec.device)
                      : make_contiguous(spec.sizes, spec.dtype, spec.device);
}

/// A shape function that makes new results.
template <Specs (*compute)(const Args&)>
void make_results(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Specs specs = compute(args);
  if (specs.size() == 1) return args.returns(make(specs[0]));
  torch::jit::Stack results;
  for (const Spec& spec : specs) results.emplace_back(make(spec));
  torch::jit::drop(*stack, args.count());
  for (auto& result : results) stack->push_back(std::move(result));
}

/// A shape function that resizes the `out` arguments, which come last, and returns them.
template <Specs (*compute)(const Args&)>
void fill_outs(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Specs specs = compute(args);
  torch::jit::Stack outs;
  for (size_t i = 0; i < specs.size(); ++i) {
    const at::Tensor& out = args.tensor(args.count() - specs.size() + i);
    resize_out(out, specs[i].sizes,
               specs[i].strides ? std::optional<c10::SymIntArrayRef>(*specs[i].strides) : std::nullopt);
    outs.emplace_back(out);
  }
  torch::jit::drop(*stack, args.count());
  for (auto& out : outs) stack->push_back(std::move(out));
}

/// A shape function for in-place operators: returns the first argument, whose metadata stays.
inline void same_self(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(args.tensor(0));
}

inline Dims dims_of(const at::Tensor& tensor) {
  const auto sizes = tensor.sym_sizes();
  return Dims(sizes.begin(), sizes.end());
}

/// The index of a dimension, counted from the end if negative. A tensor without dimensions counts as having one.
inline int64_t wrap_dim(int64_t dim, int64_t rank) { return c10::maybe_wrap_dim(dim, rank, /*wrap_scalar=*/true); }

}  // namespace stator::fake
