#include <ATen/AccumulateType.h>

#include "core/fake/families/shape_helpers.h"
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
  const at::ScalarType dtype = statistics_dtype(input, {weight, bias});
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
  require(input.device().is_cpu(), args, "only the CPU kernel's statistics are known");
  require(input.dim() >= 2, args, "the input has no channel dimension");
  const c10::SymInt channels = input.sym_size(1);
  for (const at::Tensor& parameter : {call.weight, call.bias, call.running_mean, call.running_var}) {
    require(!parameter.defined() || parameter.sym_numel() == channels, args,
            "a parameter's size is not the number of channels");
  }
  require(call.training || (call.running_mean.defined() && call.running_var.defined()), args,
          "evaluation needs running statistics");
  const auto dtype = statistics_dtype(input, {call.weight, call.bias, call.running_mean, call.running_var});
  const Dims statistics{call.training ? channels : c10::SymInt(0)};
  at::Tensor output = new_like(input, batch_norm_format(input));
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

void batch_norm_gradients(Args& args, const at::Tensor& input, const at::Tensor& weight, const c10::List<bool>& mask) {
  require(input.device().is_cpu(), args, "only the CPU kernel's gradients are known");
  require(input.dim() >= 2, args, "the input has no channel dimension");
  at::Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = new_like(input, batch_norm_format(input));
  const auto dtype = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const Dims channels{input.sym_size(1)};
  if (mask[1]) grad_weight = make_contiguous(channels, dtype, input.device());
  if (mask[2]) grad_bias = make_contiguous(channels, dtype, input.device());
  args.returns(grad_input, grad_weight, grad_bias);
}

void native_batch_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  batch_norm_gradients(args, args.tensor(1), args.optional_tensor(2), args[9].toBoolList());
}

void batch_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  batch_norm_gradients(args, args.tensor(1), args.tensor(2), args[9].toBoolList());
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
