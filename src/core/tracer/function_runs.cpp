// The part of FunctionTracer that runs operators below autograd: on twins, by shape functions, on sample arguments.
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/zero.h>

#include <algorithm>
#include <span>

#include "core/fake/construct.h"
#include "core/fake/meta_tier.h"
#include "core/fake/symbolic.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/function_values.h"

namespace stator::tracer {

using graph::kNoValue;
using graph::ValueId;

namespace {

/// A tensor of a layout that fakes do not have: sparse, mkldnn, quantized. In the fake modes the program has one that
/// was computed from sample arguments.
bool has_no_fake(const at::Tensor& tensor) {
  if (!tensor.defined() || fake::is_fake(tensor) || tensor.is_nested()) return false;
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) return false;
  return tensor.layout() != at::kStrided || tensor.is_quantized();
}

constexpr std::string_view kElementReaders[] = {
    "aten::_nnz",         "aten::_values",     "aten::values",       "aten::_indices",    "aten::indices",
    "aten::crow_indices", "aten::col_indices", "aten::ccol_indices", "aten::row_indices",
};
constexpr std::string_view kScaleReaders[] = {"aten::q_scale", "aten::q_zero_point", "aten::q_per_channel_scales",
                                              "aten::q_per_channel_zero_points"};
// The program says how many elements their results have, and which scale.
constexpr std::string_view kElementsGiven[] = {
    "aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::_sparse_coo_tensor_unsafe",
    "aten::_sparse_compressed_tensor_unsafe", "aten::sparse_compressed_tensor", "aten::sparse_coo_tensor"};
constexpr std::string_view kScaleGiven[] = {"aten::quantize_per_tensor"};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Whether the call takes no fake, and gives tensors on the meta device.
bool is_on_meta(at::ArrayRef<c10::IValue> arguments) {
  bool has_meta = any_tensor(arguments, [](const at::Tensor& tensor) { return tensor.defined() && tensor.is_meta(); });
  for (const c10::IValue& value : arguments) has_meta = has_meta || (value.isDevice() && value.toDevice().is_meta());
  return has_meta && !any_tensor(arguments, [](const at::Tensor& tensor) { return fake::is_fake(tensor); });
}

}  // namespace

void FunctionTracer::Impl::run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (options.above && options.mode != TraceMode::Real && learn_writes(op, *stack)) {
    run_on_twins(op, stack);
    return learn_constants(torch::jit::last(*stack, op.schema().returns().size()));
  }
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  // Fakes of an outer trace in another mode have no twins.
  const bool has_twins = options.mode == TraceMode::Real && !any_tensor(arguments, [](const at::Tensor& tensor) {
                           return fake::is_fake(tensor) && !fake::twin_of(tensor).defined();
                         });
  if (has_twins) return run_on_twins(op, stack);
  if (is_on_meta(arguments)) return run_on_meta(op, stack);
  run_on_fakes(op, stack);
}

void FunctionTracer::Impl::run_on_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!fake::takes_symbols(fake::Args(op, stack)) || fake::tier_of(op).tier == fake::Tier::Refused)
    return call_plain(op, stack);
  // Kernels in C++ take no symbolic sizes.
  run_on_fakes(op, stack);
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [](const at::Tensor& result) {
      if (!fake::is_fake(result)) return result;
      const PlainScope plain;
      return at::empty_strided_symint(result.sym_sizes(), result.sym_strides(), result.options());
    });
  }
}

/// An operator of torch without a shape function, whose results have sizes that do not depend on data.
static bool has_kernel_only(const c10::OperatorHandle& op) {
  if (!std::string_view(op.schema().name()).starts_with("aten::") || facts_of(op).has_open_shape) return false;
  return fake::tier_of(op).tier == fake::Tier::Refused;
}

void FunctionTracer::Impl::run_on_fakes(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (facts_of(op).is_collective) return run_collective(op, stack);
  if (any_tensor(torch::jit::last(*stack, op.schema().arguments().size()), has_no_fake)) {
    check_own_data(op, *stack);
    if (options.mode == TraceMode::Symbolic) specialise(op, stack);
    return run_on_samples(op, stack);
  }
  // Only symbolic sizes or a refused operator need something other than the shape function.
  const bool is_symbolic = options.mode == TraceMode::Symbolic && fake::takes_symbols(fake::Args(op, stack));
  const bool is_refused = !is_symbolic && fake::tier_of(op).tier == fake::Tier::Refused;
  if (!is_symbolic && !is_refused) return fake::run_shape_function(op, stack);
  const bool was_poisoned = fake::is_poisoned();
  const size_t first = stack->size() - op.schema().arguments().size();
  const torch::jit::Stack given(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  auto again = [&](auto method) {
    if (!was_poisoned) fake::take_poison();
    stack->resize(first);
    stack->insert(stack->end(), given.begin(), given.end());
    (this->*method)(op, stack);
  };
  try {
    return fake::run_shape_function(op, stack);
  } catch (const fake::Unsupported&) {
    if (!is_symbolic && !has_kernel_only(op)) throw;
    if (is_symbolic) return again(&Impl::run_specialised);
    return again(&Impl::run_on_samples);
  } catch (const std::exception& error) {  // c10::Error, or what Python's bindings made of it
    if (!is_symbolic || !fake::note_error(error.what())) throw;
    return again(&Impl::run_specialised);
  }
}

void FunctionTracer::Impl::check_own_data(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string_view name = op.schema().name();
  const bool reads_scale = is_among(name, kScaleReaders);
  if (!reads_scale && !is_among(name, kElementReaders)) return;
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  const ValueId id = recorder.current(arguments[0].toTensor());
  const uint32_t producer = id == kNoValue ? UINT32_MAX : recorder.graph().values[id].producer;
  if (producer != UINT32_MAX) {
    const auto& made_by = recorder.graph().nodes[producer].op.schema();
    const bool has_number_scale = made_by.overload_name().empty();
    if (reads_scale ? has_number_scale && is_among(made_by.name(), kScaleGiven)
                    : is_among(made_by.name(), kElementsGiven))
      return;
  }
  refuse(TraceFailure::Kind::DataRead,
         c10::toString(op.operator_name()) + (reads_scale ? ": the scale of a quantized tensor depends on data"
                                                          : ": the number of elements of a sparse tensor depends on "
                                                            "data, and this mode computes none"));
}

/// The hint of a symbolic integer, with a guard that it has this value. None if the integer depends on data.
static std::optional<int64_t> specialised(shapes::ShapeEnv& env, const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return number.as_int_unchecked();
  const auto expr = shapes::expression_of(number);
  if (!expr || expr->env != &env) return std::nullopt;
  return env.specialize(expr.get()).int64();
}

void FunctionTracer::Impl::specialise(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto plain = [&](c10::SymIntArrayRef numbers) {
    std::vector<int64_t> result;
    for (const c10::SymInt& number : numbers) {
      const auto value = specialised(*env, number);
      if (!value)
        refuse(TraceFailure::Kind::Unsupported,
               c10::toString(op.operator_name()) +
                   ": a size depends on data, and no shape function of this operator takes symbols");
      result.push_back(*value);
    }
    return result;
  };
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isSymInt()) value = plain({value.toSymInt()})[0];
    if (value.isList() && !value.isIntList() && !value.toListRef().empty() && value.toListRef()[0].isSymInt())
      value = plain(value.toSymIntVector());
    any_tensor(at::ArrayRef<c10::IValue>(value), [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !fake::is_symbolic(tensor)) return false;
      const auto sizes = plain(tensor.sym_sizes()), strides = plain(tensor.sym_strides());
      const auto offset = plain({tensor.sym_storage_offset()});
      const at::Tensor made = fake::make_over(tensor.storage(), tensor.key_set(), tensor.scalar_type());
      made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset[0]);
      // The tensor stays what the program and autograd know.
      tensor.unsafeGetTensorImpl()->shallow_copy_from(made.getIntrusivePtr());
      recorder.refresh(tensor);
      return false;
    });
  }
}

void FunctionTracer::Impl::run_specialised(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  specialise(op, stack);
  if (has_kernel_only(op)) return run_on_samples(op, stack);
  fake::run_shape_function(op, stack);
}

void FunctionTracer::Impl::run_or_specialise(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                                             const std::function<void()>& run) {
  if (options.mode != TraceMode::Symbolic || !facts_of(op).written.empty() || fake::is_poisoned()) return run();
  const size_t first = stack->size() - op.schema().arguments().size();
  const torch::jit::Stack given(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  const size_t mark = recorder.mark();
  try {
    run();
  } catch (const std::exception& error) {
    if (!fake::note_error(error.what())) throw;
    fake::take_poison();
    recorder.rollback(mark);
    stack->resize(first);
    stack->insert(stack->end(), given.begin(), given.end());
    specialise(op, stack);
    run();
  }
}

void FunctionTracer::Impl::run_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                         torch::jit::Stack* stack) {
  const bool is_plain_call = options.mode != TraceMode::Symbolic || !facts_of(op).written.empty();
  if (is_plain_call || fake::is_poisoned()) return fake::run_composite(op, keys, stack);
  run_or_specialise(op, stack, [&] { op.redispatchBoxed(keys, stack); });
}

void FunctionTracer::Impl::run_on_samples(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (op.schema().is_mutable()) fake::refuse(op, "no shape function");
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) {
      if (!fake::is_fake(tensor)) return tensor;
      const PlainScope plain;
      const at::Tensor made = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
      // Ones, so that sparse tensors have elements; zeros where the elements may be indices.
      return tensor.is_floating_point() || tensor.is_complex() ? made.fill_(1) : made.zero_();
    });
  }
  {
    const PlainScope plain;
    op.callBoxed(stack);
  }
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& result) {
      return result.defined() && fake::can_have_fake(result) ? fakes.from_real(result) : result;
    });
  }
}

void FunctionTracer::Impl::run_on_twins(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const bool has_subclass = takes_subclass_value(torch::jit::last(*stack, count));
  std::vector<std::pair<at::Tensor, at::Tensor>> given;  // (real, fake)
  for (size_t i = stack->size() - count; i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) {
      at::Tensor real = fake::twin_of(tensor);
      if (!real.defined()) return tensor;
      given.emplace_back(real, tensor);
      return real;
    });
  }
  if (has_subclass) {
    const Flag as_is(is_plain);  // Python's handler gets the thread's keys back
    call_plain(op, stack);
  } else {
    call_plain(op, stack);
  }
  if (op.schema().is_mutable())
    for (const auto& [real, fake] : given) fake::follow_twin(fake, twins);
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& result) {
      if (!result.defined()) return result;
      for (const auto& [real, fake] : given)
        if (real.is_same(result)) return fake;
      if (result.unsafeGetTensorImpl()->is_python_dispatch() && !given.empty() && !has_subclass)
        refuse(TraceFailure::Kind::Unsupported,
               c10::toString(op.operator_name()) + ": its result is a tensor subclass that the operator itself made");
      return fake::can_have_fake(result) && !fake::is_fake(result) ? twins.make(result) : result;
    });
  }
}

}  // namespace stator::tracer
