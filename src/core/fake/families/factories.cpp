#include <c10/core/DefaultDtype.h>

#include <cmath>

#include "core/fake/construct.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {

namespace {

at::ScalarType dtype_or_default(const Args& args, size_t i) {
  return args.is_none(i) ? c10::get_default_dtype_as_scalartype() : args[i].toScalarType();
}

/// The device argument of a factory; `dtype` is the position of the first of (dtype, layout, device, pin_memory).
c10::Device device_at(const Args& args, size_t dtype) {
  const size_t layout = dtype + 1, device = dtype + 2, pinned = dtype + 3;
  if (!args.is_none(layout) && args[layout].toLayout() != at::kStrided)
    refuse(args.op(), "a layout other than strided");
  if (!args.is_none(pinned) && args.boolean(pinned)) refuse(args.op(), "pinned memory");
  const c10::Device result = args.is_none(device) ? c10::Device(at::kCPU) : args[device].toDevice();
  if (result.is_meta()) refuse(args.op(), "the meta device");
  return result;
}

/// A number that depends on data is taken to be a valid size; the run raises if it is negative.
std::vector<c10::SymInt> sizes_at(const Args& args, size_t i) {
  auto sizes = args.sym_ints(i);
  for (auto& size : sizes) {
    size = shapes::as_size(size);
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", c10::SymIntArrayRef(sizes));
  }
  return sizes;
}

/// (size, dtype, layout, device, pin_memory, memory_format)
void empty(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto sizes = sizes_at(args, 0);
  const auto format = args.is_none(5) ? at::MemoryFormat::Contiguous : args[5].toMemoryFormat();
  TORCH_CHECK(format != at::MemoryFormat::Preserve, "unsupported memory format ", format);
  args.returns(make_in_format(sizes, format, dtype_or_default(args, 1), device_at(args, 1)));
}

/// Zeros with the dispatch key ZeroTensor, which lets kernels skip work on zeros. Views of them have the key too.
void efficient_zeros(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto sizes = sizes_at(args, 0);
  const auto dtype = dtype_or_default(args, 1);
  const at::Tensor plain = make_contiguous(sizes, dtype, device_at(args, 1));
  const auto keys = keys_for(plain.device()).add(c10::DispatchKey::ZeroTensor);
  at::Tensor zeros = make_over(plain.storage(), keys, dtype);
  set_geometry(zeros, plain.sym_sizes(), plain.sym_strides(), 0);
  args.returns(std::move(zeros));
}

void empty_strided(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto sizes = sizes_at(args, 0), strides = args.sym_ints(1);
  TORCH_CHECK(sizes.size() == strides.size(), "dimensionality of sizes (", sizes.size(),
              ") must match dimensionality of strides (", strides.size(), ")");
  args.returns(make_fake(sizes, strides, dtype_or_default(args, 2), device_at(args, 2)));
}

/// zeros, ones, rand, randn: (size, dtype, layout, device, pin_memory).
Specs filled(const Args& args) {
  const auto sizes = sizes_at(args, 0);
  return {{Dims(sizes.begin(), sizes.end()), dtype_or_default(args, 1), device_at(args, 1)}};
}

at::ScalarType type_of_number(const at::Scalar& number) {
  if (number.isBoolean()) return at::kBool;
  if (number.isIntegral(/*includeBool=*/false)) return at::kLong;
  if (number.isComplex()) return c10::toComplexType(c10::get_default_dtype_as_scalartype());
  return c10::get_default_dtype_as_scalartype();
}

/// (size, fill_value, dtype, ...). The default dtype follows from the type of the fill value.
Specs full(const Args& args) {
  const auto sizes = sizes_at(args, 0);
  const auto dtype = args.is_none(2) ? type_of_number(args.scalar(1)) : args[2].toScalarType();
  return {{Dims(sizes.begin(), sizes.end()), dtype, device_at(args, 2)}};
}

/// Needs a shape function although it is a composite: its kernel fills a CPU tensor without going through the
/// dispatcher.
Specs scalar_tensor(const Args& args) { return {{{}, dtype_or_default(args, 1), device_at(args, 1)}}; }

c10::SymFloat as_float(const at::Scalar& number) {
  return number.isFloatingPoint() ? number.toSymFloat() : c10::SymFloat(number.toSymInt());
}

/// The number of elements of arange if one of the numbers is a float, and one is symbolic.
c10::SymInt float_steps(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step) {
  const c10::SymFloat first = as_float(start), last = as_float(end), stride = as_float(step);
  const bool is_rising = stride > c10::SymFloat(0.0);
  TORCH_CHECK(is_rising || stride < c10::SymFloat(0.0), "step must be nonzero");
  TORCH_CHECK(is_rising ? last >= first : last <= first, "upper bound and lower bound inconsistent with step sign");
  const c10::SymFloat steps = (last - first) / stride;
  if (!steps.is_symbolic()) return static_cast<int64_t>(std::ceil(steps.as_float_unchecked()));
  return c10::SymInt(steps.toSymNodeImpl()->ceil());
}

/// The number of elements of arange, computed in the type in which the real kernel computes it.
c10::SymInt steps_between(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                          at::ScalarType dtype) {
  if (start.isSymbolic() || end.isSymbolic() || step.isSymbolic()) {
    const bool has_float = start.isFloatingPoint() || end.isFloatingPoint() || step.isFloatingPoint();
    if (has_float && dtype != at::kLong) return float_steps(start, end, step);
    const c10::SymInt first = start.toSymInt(), last = end.toSymInt(), stride = step.toSymInt();
    return shapes::as_size(stride > 0 ? (last - first + stride - 1) / stride : (first - last - stride - 1) / -stride);
  }
  const double first = start.toDouble(), last = end.toDouble(), stride = step.toDouble();
  TORCH_CHECK(stride > 0 || stride < 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "unsupported range: ", first, " -> ", last);
  TORCH_CHECK((stride > 0 && last >= first) || (stride < 0 && last <= first),
              "upper bound and lower bound inconsistent with step sign");
  if (dtype == at::kLong) {
    const int64_t low = start.toLong(), high = end.toLong(), by = step.toLong();
    // A step that truncation makes zero needs the floating-point formula.
    const int64_t direction = by > 0 ? 1 : -1;
    if (by != 0) return (high - low + by - direction) / by;
  }
  return static_cast<int64_t>(std::ceil((last - first) / stride));
}

template <int start, int end, int step>
Specs arange(const Args& args) {
  const at::Scalar first = start < 0 ? at::Scalar(0) : args.scalar(start);
  const at::Scalar by = step < 0 ? at::Scalar(1) : args.scalar(step);
  constexpr size_t dtype_at = (step > end ? step : end) + 1;
  const bool integral = first.isIntegral(true) && args.scalar(end).isIntegral(true) && by.isIntegral(true);
  const auto dtype = !args.is_none(dtype_at) ? args[dtype_at].toScalarType()
                     : integral              ? at::kLong
                                             : c10::get_default_dtype_as_scalartype();
  return {{{steps_between(first, args.scalar(end), by, dtype)}, dtype, device_at(args, dtype_at)}};
}

/// randperm: (n, [generator,] dtype, layout, device, pin_memory).
template <size_t dtype_at>
Specs permutation(const Args& args) {
  const c10::SymInt count = shapes::as_size(args.sym_int(0));
  TORCH_CHECK(count >= 0, "n must be non-negative, got", count);
  return {{{count}, dtype_or_default(args, dtype_at), device_at(args, dtype_at)}};
}

/// Computes in the dtype of `out`. An `out` that already has as many elements keeps its shape.
void arange_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  const bool has_start = args.count() > 2;
  const at::Scalar start = has_start ? args.scalar(0) : at::Scalar(0);
  const at::Scalar step = args.count() > 3 ? args.scalar(2) : at::Scalar(1);
  const c10::SymInt count = steps_between(start, args.scalar(has_start ? 1 : 0), step, out.scalar_type());
  if (!(out.sym_numel() == count)) resize_out(out, {count});
  args.returns(out);
}

void range_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  const double start = args.scalar(0).toDouble(), end = args.scalar(1).toDouble(), step = args.scalar(2).toDouble();
  TORCH_CHECK(step > 0 || step < 0, "step must be nonzero");
  TORCH_CHECK((step > 0 && end >= start) || (step < 0 && end <= start),
              "upper bound and lower bound inconsistent with step sign");
  const int64_t count = static_cast<int64_t>((end - start) / step + 1);
  if (!(out.sym_numel() == count)) resize_out(out, {c10::SymInt(count)});
  args.returns(out);
}

/// (start, end, steps, ...): one dimension of `steps`.
void steps_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  const int64_t steps = args.integer(2);
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (!(out.sym_numel() == steps)) resize_out(out, {c10::SymInt(steps)});
  args.returns(out);
}

/// linspace and logspace with tensors as start or end. Their values do not matter for the metadata of the result.
template <size_t dtype_at>
void steps_between_tensors(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  auto result = c10::get_default_dtype_as_scalartype();
  for (size_t i : {0, 1}) {
    if (args[i].isTensor()) {
      TORCH_CHECK(args.tensor(i).dim() == 0, "start and end must be tensors without dimensions");
      if (args.tensor(i).is_complex()) result = c10::typeMetaToScalarType(c10::get_default_complex_dtype());
    } else if (args.scalar(i).isComplex()) {
      result = c10::typeMetaToScalarType(c10::get_default_complex_dtype());
    }
  }
  TORCH_CHECK(args.integer(2) >= 0, "number of steps must be non-negative");
  if (!args.is_none(dtype_at)) result = args[dtype_at].toScalarType();
  args.returns(make_contiguous(c10::IntArrayRef{args.integer(2)}, result, device_at(args, dtype_at)));
}

/// (n, m, dtype, ...) or (n, dtype, ...). The composite takes plain numbers.
template <size_t kNumbers>
Specs eye(const Args& args) {
  const c10::SymInt rows = shapes::as_size(args.sym_int(0)), columns = shapes::as_size(args.sym_int(kNumbers - 1));
  TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
  TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
  return {{{rows, columns}, dtype_or_default(args, kNumbers), device_at(args, kNumbers)}};
}

void eye_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  const c10::SymInt rows = args.sym_int(0), columns = args.sym_int(args.count() - 2);
  TORCH_CHECK(rows >= 0 && columns >= 0, "n and m must be greater or equal to 0");
  resize_out(out, {rows, columns});
  args.returns(out);
}

int64_t elements_below(int64_t rows, int64_t columns, int64_t offset) {
  // Row i of the lower triangle has clamp(i + 1 + offset, 0, columns) elements.
  if (rows == 0 || columns == 0) return 0;
  const int64_t first = std::max<int64_t>(0, -offset), last_growing = std::min(rows, columns - offset);
  const int64_t growing = std::max<int64_t>(0, last_growing - first);
  const int64_t start = first + 1 + offset;
  const int64_t full_rows = rows - std::max(first, std::min(rows, std::max<int64_t>(0, last_growing)));
  return growing * start + growing * (growing - 1) / 2 + (first < rows ? full_rows * columns : 0);
}

template <bool lower>
Specs triangle_indices(const Args& args) {
  const int64_t rows = args.integer(0), columns = args.integer(1), offset = args.integer(2);
  TORCH_CHECK(rows >= 0 && columns >= 0, "row and col must be non-negative");
  const int64_t below = elements_below(rows, columns, lower ? offset : offset - 1);
  const int64_t count = lower ? below : rows * columns - below;
  const auto dtype = args.is_none(3) ? at::kLong : args[3].toScalarType();
  return {{{c10::SymInt(2), c10::SymInt(count)}, dtype, device_at(args, 3)}};
}

const ShapeRow kFactoriesRows[] = {
#include "core/ops/factories.def"
};

}  // namespace

void register_factories() { add_shapes(kFactoriesRows); }

}  // namespace stator::fake
