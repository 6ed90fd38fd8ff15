#include "core/fake/families/gradients.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

/// One value per spatial dimension. A list of one value stands for all dimensions.
std::vector<int64_t> per_dimension(const Args& args, size_t position, size_t spatial) {
  std::vector<int64_t> values = args.ints(position);
  if (values.size() == 1) values.resize(spatial, values[0]);
  require(values.size() == spatial, args, "a parameter has the wrong number of values");
  return values;
}

/// The sizes `[N,] C, spatial...` of the input with the spatial ones replaced.
Dims with_spatial(const Args& args, const at::Tensor& input, c10::SymIntArrayRef spatial) {
  const auto dims = static_cast<int64_t>(spatial.size());
  require(input.dim() == dims + 1 || input.dim() == dims + 2, args, "the input has the wrong number of dimensions");
  for (int64_t i = input.dim() - dims - 1; i < input.dim(); ++i) {
    require(input.sym_size(i) > 0, args, "the input has an empty dimension");
  }
  Dims sizes(input.sym_sizes().begin(), input.sym_sizes().end() - dims);
  for (const c10::SymInt& size : spatial) {
    require(size >= 0, args, "an output size is negative");
    sizes.push_back(size);
  }
  return sizes;
}

/// The output sizes at a position of the arguments: one for each spatial dimension, or one for all.
Dims output_sizes(const Args& args, size_t position, size_t spatial) {
  const auto values = args.sym_ints(position);
  require(values.size() == spatial || values.size() == 1, args, "a parameter has the wrong number of values");
  Dims sizes(values.begin(), values.end());
  sizes.resize(spatial, values[0]);
  return sizes;
}

void adaptive_avg_pool2d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const Dims sizes = with_spatial(args, input, output_sizes(args, 1, 2));
  args.returns(new_in_format(input, sizes, suggested_format(input)));
}

void adaptive_avg_pool3d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  args.returns(new_contiguous(input, with_spatial(args, input, output_sizes(args, 1, 3))));
}

/// Kernel, stride, padding and dilation of one spatial dimension.
struct PoolWindow {
  int64_t kernel, stride, padding, dilation;
};

c10::SymInt pooled_size(const Args& args, const c10::SymInt& in, const PoolWindow& window, bool ceil_mode) {
  const auto [kernel, stride, pad, dilation] = window;
  require(kernel > 0 && stride > 0 && dilation > 0 && pad >= 0 && 2 * pad <= (kernel - 1) * dilation + 1, args,
          "kernel, stride, padding or dilation out of range");
  const c10::SymInt room = in + (2 * pad - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0));
  require(room >= 0, args, "the output is too small");
  const c10::SymInt out = room / stride + 1;
  // The last window must begin inside of the input or its left padding: (out - 1) * stride < in + pad.
  return ceil_mode ? out.min((in + (pad - 1)) / stride + 1) : out;
}

/// An unbatched input has sizes C, D, H, W. If its channels are innermost in memory, the kernel's layout is not known.
void require_plain_if_unbatched(const Args& args, const at::Tensor& input) {
  require(input.dim() == 5 || (suggested_format(input) == at::MemoryFormat::Contiguous &&
                               (input.sym_stride(0) != 1 || input.sym_size(0) == 1)),
          args, "an unbatched input with channels innermost");
}

/// `(..., self, kernel_size, stride, padding, [dilation,] ceil_mode, ...)`, with `self` at position `first`: the sizes
/// of the result.
template <size_t kSpatial, bool kDilated, size_t first = 0>
Dims pooled_sizes(const Args& args) {
  const at::Tensor& input = args.tensor(first);
  const auto kernel = per_dimension(args, first + 1, kSpatial);
  const auto stride = args.ints(first + 2).empty() ? kernel : per_dimension(args, first + 2, kSpatial);
  const auto padding = per_dimension(args, first + 3, kSpatial);
  const auto dilation = kDilated ? per_dimension(args, first + 4, kSpatial) : std::vector<int64_t>(kSpatial, 1);
  const auto rank = static_cast<size_t>(input.dim());
  require(rank == kSpatial + 1 || rank == kSpatial + 2, args, "the input has the wrong number of dimensions");
  const bool ceil_mode = args.boolean(first + (kDilated ? 5 : 4));
  Dims spatial;
  for (size_t i = 0; i < kSpatial; ++i) {
    spatial.push_back(pooled_size(args, input.sym_sizes()[rank - kSpatial + i],
                                  {kernel[i], stride[i], padding[i], dilation[i]}, ceil_mode));
  }
  return with_spatial(args, input, spatial);
}

at::Tensor indices_in_format(const at::Tensor& input, const Dims& sizes, at::MemoryFormat format) {
  return format == at::MemoryFormat::Contiguous ? make_contiguous(sizes, at::kLong, input.device())
                                                : make_in_format(sizes, format, at::kLong, input.device());
}

void max_pool3d_with_indices(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const Dims sizes = pooled_sizes<3, true>(args);
  const auto format = input.dim() == 5 ? suggested_format(input) : at::MemoryFormat::Contiguous;
  require_plain_if_unbatched(args, input);
  args.returns(new_in_format(input, sizes, format), indices_in_format(input, sizes, format));
}

void max_pool2d_with_indices(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const Dims sizes = pooled_sizes<2, true>(args);
  const auto format = suggested_format(input);
  args.returns(new_in_format(input, sizes, format), indices_in_format(input, sizes, format));
}

void avg_pool2d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  args.returns(new_in_format(input, pooled_sizes<2, false>(args), suggested_format(input)));
}

/// The kernel takes no windows that are larger than the input.
template <size_t first>
void require_input_of_window(const Args& args) {
  const at::Tensor& input = args.tensor(first);
  const auto kernel = per_dimension(args, first + 1, 3);
  for (size_t i = 0; i < 3; ++i) {
    require(input.sym_size(static_cast<int64_t>(i) - 3) >= kernel[i], args, "the input is smaller than the window");
  }
}

void avg_pool3d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Dims sizes = pooled_sizes<3, false>(args);
  require_input_of_window<0>(args);
  args.returns(new_contiguous(args.tensor(0), sizes));
}

/// `(self, output_size)`
void adaptive_max_pool2d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const Dims sizes = with_spatial(args, input, output_sizes(args, 1, 2));
  const auto format = suggested_format(input);
  args.returns(new_in_format(input, sizes, format), indices_in_format(input, sizes, format));
}

/// Row-major maxima and their indices, with the spatial sizes at position `sizes_at`.
template <size_t kSpatial, size_t sizes_at>
void maxima(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const Dims sizes = with_spatial(args, input, output_sizes(args, sizes_at, kSpatial));
  args.returns(new_contiguous(input, sizes), make_contiguous(sizes, at::kLong, input.device()));
}

/// `(self, kernel_size, output_size, random_samples)`
template <size_t kSpatial>
void fractional_max_pool(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &samples = args.tensor(3);
  const auto kernel = per_dimension(args, 1, kSpatial), out = per_dimension(args, 2, kSpatial);
  const int64_t first = input.dim() - static_cast<int64_t>(kSpatial);
  require(first == 1 || first == 2, args, "the input has the wrong number of dimensions");
  for (size_t i = 0; i < kSpatial; ++i) {
    require(input.sym_size(first + static_cast<int64_t>(i)) >= out[i] + kernel[i] - 1, args, "the window is too large");
  }
  const c10::SymInt batch = first == 2 ? input.sym_size(0) : c10::SymInt(1);
  require(samples.dim() == 3 && samples.sym_size(0) >= batch && samples.sym_size(1) >= input.sym_size(first - 1) &&
              samples.sym_size(2) == static_cast<int64_t>(kSpatial),
          args, "the samples do not match the input");
  maxima<kSpatial, 2>(op, stack);
}

/// `(grad, self, kernel_size, output_size, indices)`
void fractional_max_pool2d_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Args args(op, stack);
  const Dims sizes = with_spatial(args, args.tensor(1), output_sizes(args, 3, 2));
  require(args.tensor(0).sym_sizes() == c10::SymIntArrayRef(sizes), args, "the gradient has another shape");
  contiguous_gradient(op, stack);
}

/// `(grad, self, kernel_size, ...)`
template <size_t kSpatial, bool kDilated, Rule gradient>
void pool_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Args args(op, stack);
  require(args.tensor(0).sym_sizes() == c10::SymIntArrayRef(pooled_sizes<kSpatial, kDilated, 1>(args)), args,
          "the gradient has another shape");
  gradient(op, stack);
}

/// `(grad, self, kernel_size, ...)`
void avg_pool3d_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  require_input_of_window<1>(Args(op, stack));
  pool_backward<3, false, contiguous_gradient>(op, stack);
}

void max_pool3d_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(1);
  require_plain_if_unbatched(args, input);
  args.returns(new_like(input, suggested_format(input)));
}

void max_unpool2d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  require(input.sym_sizes() == args.tensor(1).sym_sizes(), args, "indices and input differ in shape");
  const Dims sizes = with_spatial(args, input, output_sizes(args, 2, 2));
  args.returns(new_in_format(input, sizes, input.is_cuda() ? at::MemoryFormat::Contiguous : suggested_format(input)));
}

void max_unpool3d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  require(input.sym_sizes() == args.tensor(1).sym_sizes(), args, "indices and input differ in shape");
  args.returns(new_contiguous(input, with_spatial(args, input, output_sizes(args, 2, 3))));
}

const ShapeRow kPoolingRows[] = {
#include "core/ops/pooling.def"
};

}  // namespace

void register_pooling() { add_shapes(kPoolingRows); }

}  // namespace stator::fake
