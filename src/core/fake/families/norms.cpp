#include <ATen/AccumulateType.h>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/iterator.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

namespace stator::fake {
namespace {

/// The dtype of mean and deviation: that of the input, or float if the input is of reduced precision and the parameters
/// are float.
at::ScalarType statistics_dtype(const at::Tensor& input, std::initializer_list<at::Tensor> parameters) {
  if (!at::isReducedFloatingType(input.scalar_type())) return input.scalar_type();
  for (const at::Tensor& parameter : parameters) {
    if (parameter.defined()) return parameter.scalar_type() == at::kFloat ? at::kFloat : input.scalar_type();
  }
  return input.scalar_type();
}

/// The dtype in which CUDA kernels accumulate, and in which they return statistics.
at::ScalarType accumulated_dtype(const at::Tensor& input) {
  return at::isReducedFloatingType(input.scalar_type()) ? at::kFloat : input.scalar_type();
}

void check_normalized_shape(const Args& args, const at::Tensor& input, c10::SymIntArrayRef shape) {
  const auto sizes = input.sym_sizes();
  require(!shape.empty() && sizes.size() >= shape.size() && sizes.slice(sizes.size() - shape.size()) == shape, args,
          "the normalized shape is not the input's last dimensions");
}

void native_layer_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const auto shape = args.sym_ints(1);
  const at::Tensor weight = args.optional_tensor(2), bias = args.optional_tensor(3);
  check_normalized_shape(args, input, shape);
  for (const at::Tensor& parameter : {weight, bias}) {
    require(!parameter.defined() || parameter.sym_sizes() == c10::SymIntArrayRef(shape), args,
            "a parameter's shape is not the normalized shape");
  }
  Dims statistics(input.sym_sizes().begin(), input.sym_sizes().end());
  std::fill(statistics.end() - static_cast<std::ptrdiff_t>(shape.size()), statistics.end(), c10::SymInt(1));
  const at::ScalarType dtype = input.is_cuda() ? accumulated_dtype(input) : statistics_dtype(input, {weight, bias});
  args.returns(new_like(input, at::MemoryFormat::Contiguous), make_contiguous(statistics, dtype, input.device()),
               make_contiguous(statistics, dtype, input.device()));
}

void native_layer_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(1);
  const at::Tensor weight = args.optional_tensor(5), bias = args.optional_tensor(6);
  const auto mask = args[7].toBoolList();
  check_normalized_shape(args, input, args.sym_ints(2));
  at::Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = new_like(input, at::MemoryFormat::Contiguous);
  if (mask[1] && weight.defined()) grad_weight = new_like(weight, at::MemoryFormat::Contiguous);
  if (mask[2] && bias.defined()) grad_bias = new_like(bias, at::MemoryFormat::Contiguous);
  args.returns(grad_input, grad_weight, grad_bias);
}

/// The CUDA kernel of (input, normalized_shape, weight, eps): the result and the reciprocal of its mean square's root.
void fused_rms_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const auto shape = args.sym_ints(1);
  check_normalized_shape(args, input, shape);
  Dims statistics = dims_of(input);
  std::fill(statistics.end() - static_cast<std::ptrdiff_t>(shape.size()), statistics.end(), c10::SymInt(1));
  args.returns(new_like(input, at::MemoryFormat::Contiguous),
               make_contiguous(statistics, accumulated_dtype(input), input.device()));
}

/// The CUDA kernel of (grad, input, normalized_shape, rstd, weight, output_mask).
void fused_rms_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor weight = args.optional_tensor(4);
  const auto mask = args[5].toBoolList();
  at::Tensor grad_input, grad_weight;
  if (mask[0]) grad_input = new_like(args.tensor(1), at::MemoryFormat::Contiguous);
  if (mask[1] && weight.defined()) grad_weight = new_like(weight, at::MemoryFormat::Contiguous);
  args.returns(grad_input, grad_weight);
}

void native_group_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const at::Tensor weight = args.optional_tensor(1), bias = args.optional_tensor(2);
  const auto format = suggested_format(input);
  require(is_laid_out(input, format), args, "the input is not dense in its memory format");
  const Dims statistics{args.sym_int(3), args.sym_int(6)};
  const at::ScalarType dtype = statistics_dtype(input, {weight, bias});
  args.returns(new_like(input, format), make_contiguous(statistics, dtype, input.device()),
               make_contiguous(statistics, dtype, input.device()));
}

void native_group_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(1);
  const at::Tensor weight = args.optional_tensor(4);
  const auto mask = args[9].toBoolList();
  at::Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) {
    const auto format = input.device().is_cpu() ? suggested_format(input) : at::MemoryFormat::Contiguous;
    grad_input = new_like(input, format);
  }
  require(weight.defined() || !(mask[1] || mask[2]), args, "a gradient of absent parameters was asked for");
  if (mask[1]) grad_weight = new_like(weight, at::MemoryFormat::Contiguous);
  if (mask[2]) grad_bias = new_like(weight, at::MemoryFormat::Contiguous);
  args.returns(grad_input, grad_weight, grad_bias);
}

/// The memory format of the result: row-major if the input is, otherwise the format that the input suggests.
at::MemoryFormat batch_norm_format(const at::Tensor& input) {
  return is_laid_out(input, at::MemoryFormat::Contiguous) ? at::MemoryFormat::Contiguous : suggested_format(input);
}

struct BatchNorm {
  at::Tensor input, weight, bias, running_mean, running_var;
  bool training;
};

void batch_norm_results(Args& args, const BatchNorm& call, bool reserve) {
  const at::Tensor& input = call.input;
  require(is_on_known_device(input), args, "the kernel of this device is not known");
  require(input.dim() >= 2, args, "the input has no channel dimension");
  const c10::SymInt channels = input.sym_size(1);
  for (const at::Tensor& parameter : {call.weight, call.bias, call.running_mean, call.running_var}) {
    require(!parameter.defined() || parameter.sym_numel() == channels, args,
            "a parameter's size is not the number of channels");
  }
  require(call.training || (call.running_mean.defined() && call.running_var.defined()), args,
          "evaluation needs running statistics");
  // The CUDA kernels return statistics in evaluation too.
  const bool cuda = input.is_cuda();
  const auto dtype = cuda ? accumulated_dtype(input)
                          : statistics_dtype(input, {call.weight, call.bias, call.running_mean, call.running_var});
  const Dims statistics{call.training || cuda ? channels : c10::SymInt(0)};
  at::Tensor output = cuda ? new_like(input) : new_like(input, batch_norm_format(input));
  at::Tensor mean = make_contiguous(statistics, dtype, input.device());
  at::Tensor deviation = make_contiguous(statistics, dtype, input.device());
  if (reserve) {
    args.returns(output, mean, deviation, make_contiguous(Dims{c10::SymInt(0)}, at::kByte, input.device()));
  } else {
    args.returns(output, mean, deviation);
  }
}

void native_batch_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  batch_norm_results(args,
                     {args.tensor(0), args.optional_tensor(1), args.optional_tensor(2), args.optional_tensor(3),
                      args.optional_tensor(4), args.boolean(5)},
                     false);
}

void native_batch_norm_no_stats(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  batch_norm_results(args, {args.tensor(0), args.optional_tensor(1), args.optional_tensor(2), {}, {}, args.boolean(3)},
                     false);
}

void batch_norm_with_update(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  batch_norm_results(
      args, {args.tensor(0), args.optional_tensor(1), args.optional_tensor(2), args.tensor(3), args.tensor(4), true},
      true);
}

/// The gradient of the input, from a CUDA kernel. `reduces`: gradients of parameters, or of statistics, are computed
/// too.
at::Tensor cuda_input_gradient(const at::Tensor& grad, const at::Tensor& input, bool training, bool reduces) {
  const bool has_channels_inside =
      is_laid_out(input, at::MemoryFormat::Contiguous)
          ? always_equal(input.sym_stride(1), 1)
          : suggested_format(input) != at::MemoryFormat::Contiguous && is_laid_out(input, suggested_format(input));
  if (reduces && !has_channels_inside) return new_like(input, at::MemoryFormat::Contiguous);
  const Inputs inputs = training ? Inputs{&grad, &input} : Inputs{&grad};
  return iterate(inputs, input.scalar_type(), input.device());
}

/// The arguments that the overloads of the backward operator share.
struct BatchNormGradients {
  const at::Tensor &grad, &input;
  at::Tensor weight;
  bool training;
  c10::List<bool> mask;
};

void batch_norm_gradients(Args& args, const BatchNormGradients& call) {
  const at::Tensor &input = call.input, &weight = call.weight;
  require(is_on_known_device(input), args, "the kernel of this device is not known");
  require(input.dim() >= 2, args, "the input has no channel dimension");
  const bool reduces = call.training || call.mask[1] || call.mask[2];
  at::Tensor grad_input, grad_weight, grad_bias;
  if (call.mask[0]) {
    grad_input = input.is_cuda() ? cuda_input_gradient(call.grad, input, call.training, reduces)
                                 : new_like(input, batch_norm_format(input));
  }
  const auto dtype = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const Dims channels{input.sym_size(1)};
  if (call.mask[1]) grad_weight = make_contiguous(channels, dtype, input.device());
  if (call.mask[2]) grad_bias = make_contiguous(channels, dtype, input.device());
  args.returns(grad_input, grad_weight, grad_bias);
}

void native_batch_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  batch_norm_gradients(
      args, {args.tensor(0), args.tensor(1), args.optional_tensor(2), args.boolean(7), args[9].toBoolList()});
}

void batch_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  batch_norm_gradients(args, {args.tensor(0), args.tensor(1), args.tensor(2), args.boolean(7), args[9].toBoolList()});
}

/// (input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon)
void cudnn_batch_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &weight = args.tensor(1);
  const bool training = args.boolean(5);
  require(input.dim() >= 2 && weight.sym_numel() == input.sym_size(1), args, "weight and input do not match");
  const auto format = suggested_format(input);
  // In training cuDNN keeps a buffer for the backward pass, whose size only the library knows.
  require(!training || format == at::MemoryFormat::Contiguous || input.scalar_type() == at::kFloat, args,
          "the size of cuDNN's buffer");
  const Dims statistics{training ? input.sym_size(1) : c10::SymInt(0)}, none{c10::SymInt(0)};
  args.returns(new_like(input, format), new_contiguous(weight, statistics), new_contiguous(weight, statistics),
               make_contiguous(none, at::kByte, input.device()));
}

/// (input, grad, weight, ...)
void cudnn_batch_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &weight = args.tensor(2);
  args.returns(new_like(input, suggested_format(input)), new_like(weight, at::MemoryFormat::Contiguous),
               new_like(weight, at::MemoryFormat::Contiguous));
}

/// (self, dim, half_to_float)
void softmax(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  wrap_dim(args.integer(1), self.dim());
  args.returns(make_contiguous(self.sym_sizes(), args.boolean(2) ? at::kFloat : self.scalar_type(), self.device()));
}

/// (grad, output, dim, input_dtype)
void softmax_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& grad = args.tensor(0);
  wrap_dim(args.integer(2), grad.dim());
  require(grad.sym_sizes() == args.tensor(1).sym_sizes(), args, "gradient and output differ in shape");
  args.returns(make_contiguous(grad.sym_sizes(), args[3].toScalarType(), grad.device()));
}

const ShapeRow kNormsRows[] = {
#include "core/ops/norms.def"
};

}  // namespace

void register_norms() { add_shapes(kNormsRows); }

}  // namespace stator::fake
