#include <ATen/core/Reduction.h>

#include "core/fake/families/gradients.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/iterator.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

bool reduces(const Args& args, size_t position) { return args.integer(position) != at::Reduction::None; }

at::Tensor new_scalar(const at::Tensor& model) { return new_contiguous(model, Dims{}); }

void require_same_shape(const Args& args, const at::Tensor& a, const at::Tensor& b) {
  require(a.sym_sizes() == b.sym_sizes(), args, "tensors differ in shape");
}

void binary_cross_entropy(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  require_same_shape(args, input, args.tensor(1));
  require(input.scalar_type() == args.tensor(1).scalar_type(), args, "input and target differ in dtype");
  args.returns(reduces(args, 3) ? new_scalar(input) : new_like(input));
}

void binary_cross_entropy_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_same_shape(args, args.tensor(1), args.tensor(2));
  args.returns(new_like(args.tensor(1)));
}

void huber_loss(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Inputs inputs{&args.tensor(0), &args.tensor(1)};
  require(args.number(3) > 0, args, "delta is not positive");
  const at::ScalarType dtype = common_dtype(inputs);
  const at::Tensor loss = iterate(inputs, dtype, common_device(inputs));
  args.returns(reduces(args, 2) ? new_scalar(loss) : loss);
}

/// `(self, target, reduction, ...)`
void elementwise_loss(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Inputs inputs{&args.tensor(0), &args.tensor(1)};
  const at::Tensor loss = iterate(inputs, common_dtype(inputs), common_device(inputs));
  args.returns(reduces(args, 2) ? new_scalar(loss) : loss);
}

/// The composite computes on a copy of the target, so that its layout decides.
void soft_margin_loss(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &target = args.tensor(1);
  require_same_shape(args, input, target);
  require(input.scalar_type() == target.scalar_type(), args, "input and target differ in dtype");
  args.returns(reduces(args, 2) ? new_scalar(input) : iterate({&target}, target.scalar_type(), target.device()));
}

/// `(grad, self, target, reduction)`
void soft_margin_loss_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_same_shape(args, args.tensor(1), args.tensor(2));
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

/// `(self, target, weight, reduction, ignore_index)`
void nll_loss_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &target = args.tensor(1);
  require((input.dim() == 1 || input.dim() == 2) && target.dim() <= 1, args, "the wrong number of dimensions");
  require((input.dim() == 1 && target.dim() == 0) || input.sym_size(0) == target.sym_size(0), args,
          "input and target differ in length");
  const at::Tensor weight = args.optional_tensor(2);
  require(!weight.defined() || (weight.dim() == 1 && weight.sym_size(0) == input.sym_size(-1)), args,
          "not a weight for each class");
  const bool per_row = !reduces(args, 3) && input.dim() == 2;
  args.returns(per_row ? new_contiguous(input, Dims{input.sym_size(0)}) : new_scalar(input), new_scalar(input));
}

/// `(grad, self, target, reduction, ..., out)`: the output already has the input's shape.
void elementwise_gradient_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor out = args.tensor(args.count() - 1);
  require_same_shape(args, args.tensor(1), args.tensor(2));
  require_same_shape(args, args.tensor(1), out);
  args.returns(out);
}

/// A row-major gradient of the second argument. The third argument must have the same shape.
void elementwise_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_same_shape(args, args.tensor(1), args.tensor(2));
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

void nll_loss2d_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &target = args.tensor(1);
  require(input.dim() == 4 && target.dim() == 3, args, "not a batch of images with one class per pixel");
  require(input.sym_size(0) == target.sym_size(0) && input.sym_size(2) == target.sym_size(1) &&
              input.sym_size(3) == target.sym_size(2),
          args, "input and target differ in shape");
  args.returns(reduces(args, 3) ? new_scalar(input) : new_contiguous(input, target.sym_sizes()), new_scalar(input));
}

void nll_loss2d_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  at::Tensor grad = new_like(args.tensor(1));
  require(is_laid_out(grad, at::MemoryFormat::Contiguous), args, "the kernel takes row-major inputs only");
  args.returns(grad);
}

void multi_margin_loss(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  require(input.dim() <= 2, args, "the input has too many dimensions");
  const bool per_row = !reduces(args, 5) && args.tensor(1).dim() > 0;
  args.returns(per_row ? new_contiguous(input, args.tensor(1).sym_sizes()) : new_scalar(input));
}

void multilabel_margin_loss_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &target = args.tensor(1);
  require(input.dim() <= 2, args, "the input has too many dimensions");
  require_same_shape(args, input, target);
  const bool per_row = !reduces(args, 2) && target.dim() > 1;
  args.returns(per_row ? new_contiguous(input, Dims{input.sym_size(0)}) : new_scalar(input),
               new_contiguous(input, target.sym_sizes()));
}

const ShapeRow kLossesRows[] = {
#include "core/ops/losses.def"
};

}  // namespace

void register_losses() { add_shapes(kLossesRows); }

}  // namespace stator::fake
