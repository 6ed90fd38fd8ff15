#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

void grid_sampler(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &grid = args.tensor(1);
  require(input.dim() == grid.dim() && (input.dim() == 4 || input.dim() == 5), args, "input and grid differ in rank");
  require(input.sym_size(0) == grid.sym_size(0) && grid.sym_size(-1) == input.dim() - 2, args,
          "input and grid do not match");
  require(input.scalar_type() == grid.scalar_type(), args, "input and grid differ in dtype");
  Dims sizes{input.sym_size(0), input.sym_size(1)};
  for (int64_t i = 1; i < grid.dim() - 1; ++i) sizes.push_back(grid.sym_size(i));
  args.returns(new_contiguous(input, sizes));
}

void grid_sampler_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto mask = args[6].toBoolList();
  at::Tensor grad_input;
  if (mask[0]) grad_input = new_like(args.tensor(1), at::MemoryFormat::Contiguous);
  args.returns(grad_input, new_like(args.tensor(2), at::MemoryFormat::Contiguous));
}

/// The number of positions of a sliding window.
c10::SymInt windows(const Args& args, const c10::SymInt& size, int64_t reach, int64_t stride) {
  require(size >= reach, args, "the window is larger than the input");
  return (size - reach) / stride + 1;
}

struct Window {
  std::vector<int64_t> kernel, dilation, padding, stride;

  Window(const Args& args, size_t first)
      : kernel(args.ints(first)),
        dilation(args.ints(first + 1)),
        padding(args.ints(first + 2)),
        stride(args.ints(first + 3)) {
    for (const auto* values : {&kernel, &dilation, &padding, &stride}) {
      require(values->size() == 2, args, "a parameter does not have two values");
    }
    for (size_t i = 0; i < 2; ++i) {
      require(kernel[i] > 0 && dilation[i] > 0 && stride[i] > 0 && padding[i] >= 0, args, "a parameter out of range");
    }
  }
};

void im2col(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const Window window(args, 1);
  require(input.dim() == 3 || input.dim() == 4, args, "the wrong number of dimensions");
  const int64_t channel = input.dim() - 3;
  c10::SymInt count = 1;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1 - 2 * window.padding[i];
    const c10::SymInt along =
        windows(args, input.sym_size(channel + 1 + static_cast<int64_t>(i)), reach, window.stride[i]);
    count = count * along;
  }
  Dims sizes;
  if (channel == 1) sizes.push_back(input.sym_size(0));
  sizes.push_back(input.sym_size(channel) * window.kernel[0] * window.kernel[1]);
  sizes.push_back(count);
  args.returns(new_contiguous(input, sizes));
}

void col2im(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const auto output = args.sym_ints(1);
  const Window window(args, 2);
  require((input.dim() == 2 || input.dim() == 3) && output.size() == 2, args, "the wrong number of dimensions");
  const int64_t area = window.kernel[0] * window.kernel[1];
  require(input.sym_size(-2) % area == 0, args, "the channels are not a multiple of the window");
  c10::SymInt count = 1;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1 - 2 * window.padding[i];
    count = count * windows(args, output[i], reach, window.stride[i]);
  }
  require(input.sym_size(-1) == count, args, "the columns are not the positions of the window");
  Dims sizes;
  if (input.dim() == 3) sizes.push_back(input.sym_size(0));
  sizes.push_back(input.sym_size(-2) / area);
  sizes.insert(sizes.end(), output.begin(), output.end());
  args.returns(new_contiguous(input, sizes));
}

/// On the CPU in the memory format that the input suggests. Inputs that are not 4-d, and CUDA tensors, give row-major
/// results.
at::Tensor shuffled(const at::Tensor& input, const Dims& sizes) {
  const bool keeps = input.dim() == 4 && !input.is_cuda();
  const auto format = keeps ? suggested_format(input) : at::MemoryFormat::Contiguous;
  return new_in_format(input, sizes, format);
}

void pixel_shuffle(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const int64_t factor = args.integer(1), rank = input.dim();
  require(rank >= 3 && factor > 0 && input.sym_size(-3) % (factor * factor) == 0, args,
          "channels and factor do not match");
  require(rank != 5 || suggested_format(input) == at::MemoryFormat::Contiguous, args, "a 5-d channels-last input");
  Dims sizes(input.sym_sizes().begin(), input.sym_sizes().end());
  const auto last = sizes.size() - 1;
  sizes[last - 2] = sizes[last - 2] / (factor * factor);
  sizes[last - 1] = sizes[last - 1] * factor;
  sizes[last] = sizes[last] * factor;
  args.returns(shuffled(input, sizes));
}

void pixel_unshuffle(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const int64_t factor = args.integer(1), rank = input.dim();
  require(rank >= 3 && factor > 0 && input.sym_size(-1) % factor == 0 && input.sym_size(-2) % factor == 0, args,
          "height, width and factor do not match");
  require(rank != 5 || suggested_format(input) == at::MemoryFormat::Contiguous, args, "a 5-d channels-last input");
  Dims sizes(input.sym_sizes().begin(), input.sym_sizes().end());
  const auto last = sizes.size() - 1;
  sizes[last - 2] = sizes[last - 2] * (factor * factor);
  sizes[last - 1] = sizes[last - 1] / factor;
  sizes[last] = sizes[last] / factor;
  args.returns(shuffled(input, sizes));
}

void channel_shuffle(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const c10::SymInt groups = args.sym_int(1);
  require(input.dim() > 2 && groups > 0 && input.sym_size(1) % groups == 0, args, "channels and groups do not match");
  require(input.sym_numel() != 0, args, "an empty input");
  args.returns(new_like(input, input.is_cuda() ? at::MemoryFormat::Contiguous : suggested_format(input)));
}

/// (input, grid)
void cudnn_grid_sampler(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &grid = args.tensor(1);
  require(input.dim() == 4 && grid.dim() == 4, args, "not images and a grid for each");
  args.returns(new_contiguous(input, Dims{input.sym_size(0), input.sym_size(1), grid.sym_size(1), grid.sym_size(2)}));
}

/// (input, grid, gradient)
void cudnn_grid_sampler_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(0), at::MemoryFormat::Contiguous),
               new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

const ShapeRow kSpatialRows[] = {
#include "core/ops/spatial.def"
};

}  // namespace

void register_spatial() { add_shapes(kSpatialRows); }

}  // namespace stator::fake
