#include <ATen/native/ConvUtils.h>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"

namespace stator::fake {
namespace {

using at::native::ConvBackend;

/// The arguments that a convolution and its gradient share, with one value per spatial dimension in each parameter.
struct Convolution {
  at::Tensor input, weight, bias;
  std::vector<c10::SymInt> stride, padding, dilation, output_padding;
  bool transposed;
  c10::SymInt groups;
};

std::vector<c10::SymInt> spread(std::vector<c10::SymInt> values, int64_t spatial) {
  if (values.size() == 1) values.resize(static_cast<size_t>(spatial), values[0]);
  return values;
}

Convolution read_parameters(Args& args, size_t first, at::Tensor input, at::Tensor weight, at::Tensor bias) {
  const int64_t spatial = weight.dim() - 2;
  require(spatial >= 1 && spatial <= 3 && input.dim() == weight.dim(), args, "not a batched 1-d to 3-d convolution");
  require(input.scalar_type() == weight.scalar_type(), args, "input and weight differ in dtype");
  require(!bias.defined() || bias.scalar_type() == weight.scalar_type(), args, "bias and weight differ in dtype");
  require(input.device() == weight.device(), args, "input and weight are on different devices");
  Convolution conv{std::move(input),
                   std::move(weight),
                   std::move(bias),
                   spread(args.sym_ints(first), spatial),
                   spread(args.sym_ints(first + 1), spatial),
                   spread(args.sym_ints(first + 2), spatial),
                   spread(args.sym_ints(first + 4), spatial),
                   args.boolean(first + 3),
                   args.sym_int(first + 5)};
  for (const auto* values : {&conv.stride, &conv.padding, &conv.dilation, &conv.output_padding}) {
    require(static_cast<int64_t>(values->size()) == spatial, args, "a parameter has the wrong number of values");
  }
  const auto& in = conv.input;
  const auto& kernel = conv.weight;
  require(
      conv.groups > 0 && in.sym_size(1) == (conv.transposed ? kernel.sym_size(0) : kernel.sym_size(1) * conv.groups),
      args, "input channels do not match weight and groups");
  return conv;
}

/// A 1-d convolution runs as a 2-d convolution of height 1 on a row-major input.
at::Tensor with_height(const at::Tensor& tensor) {
  Dims sizes(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
  Dims strides(tensor.sym_strides().begin(), tensor.sym_strides().end());
  strides.insert(strides.begin() + 2, sizes[2] * strides[2]);
  sizes.insert(sizes.begin() + 2, c10::SymInt(1));
  return make_view(tensor, sizes, strides, tensor.sym_storage_offset());
}

at::Tensor without_height(const at::Tensor& tensor) {
  Dims sizes(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
  Dims strides(tensor.sym_strides().begin(), tensor.sym_strides().end());
  sizes.erase(sizes.begin() + 2);
  strides.erase(strides.begin() + 2);
  return make_view(tensor, sizes, strides, 0);
}

ConvBackend select_backend(const Convolution& conv, at::OptionalSymIntArrayRef bias_sizes) {
  return at::native::select_conv_backend(conv.input, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation,
                                         conv.transposed, conv.output_padding, conv.groups, bias_sizes);
}

/// The memory format of everything the kernels return, for symbolic sizes. Which kernel runs depends on sizes; it is
/// asked only where the kernels' formats differ.
at::MemoryFormat symbolic_format(const Args& args, const Convolution& conv, at::OptionalSymIntArrayRef bias_sizes) {
  // The input of a 1-d convolution becomes row-major.
  const bool is_flat = conv.weight.dim() == 3;
  const auto of_input = is_flat ? at::MemoryFormat::Contiguous : suggested_format(conv.input);
  const auto of_weight = suggested_format(is_flat ? with_height(conv.weight) : conv.weight);
  if (of_input == at::MemoryFormat::Contiguous && of_weight == at::MemoryFormat::Contiguous) return of_input;
  if (conv.input.scalar_type() == at::kDouble) return at::MemoryFormat::Contiguous;
  require(is_on_known_device(conv.input), args, "the kernel depends on sizes");
  if (conv.input.is_cuda()) {
    const ConvBackend backend = select_backend(conv, bias_sizes);
    if (backend != ConvBackend::Cudnn && backend != ConvBackend::CudnnTranspose) return at::MemoryFormat::Contiguous;
    return conv.weight.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  }
  if (conv.weight.dim() != 5) return at::MemoryFormat::ChannelsLast;
  const ConvBackend backend = select_backend(conv, bias_sizes);
  return backend == ConvBackend::Mkldnn || backend == ConvBackend::MkldnnTranspose ? at::MemoryFormat::ChannelsLast3d
                                                                                   : at::MemoryFormat::Contiguous;
}

/// The memory format of everything the selected kernel returns: output and gradients.
at::MemoryFormat result_format(const Args& args, const Convolution& conv, at::OptionalSymIntArrayRef bias_sizes) {
  if (takes_symbols(args)) return symbolic_format(args, conv, bias_sizes);
  const ConvBackend backend = select_backend(conv, bias_sizes);
  switch (backend) {
    case ConvBackend::Overrideable:
    case ConvBackend::MkldnnEmpty:
    case ConvBackend::Mps:
    case ConvBackend::MpsTranspose:
      refuse(args.op(), "a convolution kernel whose result format is not known");
    default:
      break;
  }
  if (conv.weight.dim() != 3) return at::native::_determine_backend_memory_format(conv.input, conv.weight, backend);
  const at::Tensor input = with_height(new_like(conv.input, at::MemoryFormat::Contiguous));
  return at::native::_determine_backend_memory_format(input, with_height(conv.weight), backend);
}

at::Tensor new_result(const Convolution& conv, c10::SymIntArrayRef sizes, at::MemoryFormat format) {
  if (sizes.size() != 3) return new_in_format(conv.input, sizes, format);
  if (format == at::MemoryFormat::Contiguous) return new_contiguous(conv.input, sizes);
  const Dims tall{sizes[0], sizes[1], c10::SymInt(1), sizes[2]};
  return without_height(new_in_format(conv.input, tall, format));
}

Dims output_sizes(Args& args, const Convolution& conv) {
  const at::Tensor &input = conv.input, &weight = conv.weight;
  Dims sizes{input.sym_size(0), conv.transposed ? weight.sym_size(1) * conv.groups : weight.sym_size(0)};
  for (int64_t i = 0; i < weight.dim() - 2; ++i) {
    const auto at_dim = static_cast<size_t>(i);
    const c10::SymInt reach = conv.dilation[at_dim] * (weight.sym_size(i + 2) - 1) + 1;
    const c10::SymInt in = input.sym_size(i + 2);
    require(conv.stride[at_dim] > 0 && conv.dilation[at_dim] > 0 && conv.padding[at_dim] >= 0, args,
            "stride, padding or dilation out of range");
    const c10::SymInt padded = in + conv.padding[at_dim] * 2;
    require(conv.transposed || padded >= reach, args, "the kernel is larger than the input");
    sizes.push_back(conv.transposed ? (in - 1) * conv.stride[at_dim] - conv.padding[at_dim] * 2 + reach +
                                          conv.output_padding[at_dim]
                                    : (padded - reach) / conv.stride[at_dim] + 1);
    require(sizes.back() >= 0, args, "the output is too small");
  }
  return sizes;
}

void convolution(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Convolution conv = read_parameters(args, 3, args.tensor(0), args.tensor(1), args.optional_tensor(2));
  const Dims sizes = output_sizes(args, conv);
  require(!conv.bias.defined() || (conv.bias.dim() == 1 && conv.bias.sym_size(0) == sizes[1]), args,
          "the bias does not have one value per output channel");
  const at::MemoryFormat format = result_format(args, conv, std::nullopt);
  args.returns(new_result(conv, sizes, format));
}

void convolution_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Convolution conv = read_parameters(args, 4, args.tensor(1), args.tensor(2), {});
  const auto mask = args[10].toBoolList();
  require(args.tensor(0).sym_sizes() == c10::SymIntArrayRef(output_sizes(args, conv)), args,
          "the gradient has another shape");
  std::optional<std::vector<c10::SymInt>> bias_sizes;
  if (!args.is_none(3)) bias_sizes = args.sym_ints(3);
  const at::MemoryFormat format =
      result_format(args, conv, bias_sizes ? at::OptionalSymIntArrayRef(*bias_sizes) : std::nullopt);
  at::Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = new_result(conv, conv.input.sym_sizes(), format);
  if (mask[1]) grad_weight = new_result(conv, conv.weight.sym_sizes(), format);
  if (mask[2]) {
    const Dims channels{conv.transposed ? conv.weight.sym_size(1) * conv.groups : conv.weight.sym_size(0)};
    grad_bias = new_contiguous(conv.weight, channels);
  }
  args.returns(grad_input, grad_weight, grad_bias);
}

const ShapeRow kConvolutionRows[] = {
#include "core/ops/convolution.def"
};

}  // namespace

void register_convolution() { add_shapes(kConvolutionRows); }

}  // namespace stator::fake
