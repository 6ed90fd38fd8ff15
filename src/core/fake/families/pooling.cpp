#include "core/fake/families/shape_helpers.h"
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
Dims with_spatial(const Args& args, const at::Tensor& input, c10::ArrayRef<int64_t> spatial) {
  const auto dims = static_cast<int64_t>(spatial.size());
  require(input.dim() == dims + 1 || input.dim() == dims + 2, args, "the input has the wrong number of dimensions");
  for (int64_t i = input.dim() - dims - 1; i < input.dim(); ++i) {
    require(input.sym_size(i) > 0, args, "the input has an empty dimension");
  }
  Dims sizes(input.sym_sizes().begin(), input.sym_sizes().end() - dims);
  for (const int64_t size : spatial) {
    require(size >= 0, args, "an output size is negative");
    sizes.emplace_back(size);
  }
  return sizes;
}

void adaptive_avg_pool2d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const Dims sizes = with_spatial(args, input, per_dimension(args, 1, 2));
  args.returns(new_in_format(input, sizes, input.suggest_memory_format()));
}

void adaptive_avg_pool3d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  args.returns(new_contiguous(input, with_spatial(args, input, per_dimension(args, 1, 3))));
}

/// A gradient in the memory format that the input (second argument) suggests.
void gradient_in_input_format(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(1);
  args.returns(new_like(input, input.suggest_memory_format()));
}

/// A row-major gradient of the input (second argument).
void contiguous_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

int64_t pooled_size(const Args& args, int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                    bool ceil_mode) {
  require(kernel > 0 && stride > 0 && dilation > 0 && pad >= 0 && 2 * pad <= (kernel - 1) * dilation + 1, args,
          "kernel, stride, padding or dilation out of range");
  const int64_t room = in + 2 * pad - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  int64_t out = (room >= 0 ? room / stride : -((-room + stride - 1) / stride)) + 1;
  // The last window must begin inside of the input or its left padding.
  if (ceil_mode && (out - 1) * stride >= in + pad) --out;
  require(out >= 1, args, "the output is too small");
  return out;
}

/// An unbatched input has sizes C, D, H, W. If its channels are innermost in memory, the kernel's layout is not known.
void require_plain_if_unbatched(const Args& args, const at::Tensor& input) {
  require(input.dim() == 5 || (input.suggest_memory_format() == at::MemoryFormat::Contiguous &&
                               (input.stride(0) != 1 || input.size(0) == 1)),
          args, "an unbatched input with channels innermost");
}

void max_pool3d_with_indices(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const auto kernel = per_dimension(args, 1, 3);
  const auto stride = args.ints(2).empty() ? kernel : per_dimension(args, 2, 3);
  const auto padding = per_dimension(args, 3, 3), dilation = per_dimension(args, 4, 3);
  require(input.dim() == 4 || input.dim() == 5, args, "the input has the wrong number of dimensions");
  std::vector<int64_t> spatial(3);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t in = input.size(input.dim() - 3 + static_cast<int64_t>(i));
    spatial[i] = pooled_size(args, in, kernel[i], stride[i], padding[i], dilation[i], args.boolean(5));
  }
  const Dims sizes = with_spatial(args, input, spatial);
  const auto format = input.dim() == 5 ? input.suggest_memory_format() : at::MemoryFormat::Contiguous;
  require_plain_if_unbatched(args, input);
  args.returns(new_in_format(input, sizes, format), format == at::MemoryFormat::Contiguous
                                                        ? make_contiguous(sizes, at::kLong, input.device())
                                                        : make_in_format(sizes, format, at::kLong, input.device()));
}

void max_pool3d_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(1);
  require_plain_if_unbatched(args, input);
  args.returns(new_like(input, input.suggest_memory_format()));
}

void max_unpool2d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  require(input.sym_sizes() == args.tensor(1).sym_sizes(), args, "indices and input differ in shape");
  const Dims sizes = with_spatial(args, input, per_dimension(args, 2, 2));
  args.returns(new_in_format(input, sizes, input.suggest_memory_format()));
}

void max_unpool3d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  require(input.sym_sizes() == args.tensor(1).sym_sizes(), args, "indices and input differ in shape");
  args.returns(new_contiguous(input, with_spatial(args, input, per_dimension(args, 2, 3))));
}

const ShapeRow kPoolingRows[] = {
#include "core/ops/pooling.def"
};

}  // namespace

void register_pooling() { add_shapes(kPoolingRows); }

}  // namespace stator::fake
