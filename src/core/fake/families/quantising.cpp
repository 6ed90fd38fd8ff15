#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"

namespace stator::fake {
namespace {

/// What a tensor would be after quantisation, and which of its elements are within the range.
void with_mask(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  args.returns(new_like(self), make_fake(self.sym_sizes(), like_strides(self), at::kBool, self.device()));
}

void without_mask(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(0)));
}

/// Products of 8-bit integers in 32 bits.
void int_mm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &a = args.tensor(0), &b = args.tensor(1);
  require(a.dim() == 2 && b.dim() == 2 && a.sym_size(1) == b.sym_size(0), args, "not two matrices that fit");
  require(a.scalar_type() == at::kChar && b.scalar_type() == at::kChar, args, "not 8-bit integers");
  args.returns(make_contiguous(Dims{a.sym_size(0), b.sym_size(1)}, at::kInt, a.device()));
}

}  // namespace

void register_quantising() {
  add_rules({
      {"aten::fake_quantize_per_tensor_affine_cachemask", with_mask},
      {"aten::fake_quantize_per_channel_affine_cachemask", with_mask},
      {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", with_mask},
      {"aten::_fake_quantize_learnable_per_tensor_affine", without_mask},
      {"aten::_fake_quantize_learnable_per_channel_affine", without_mask},
      {"aten::_int_mm", int_mm},
  });
}

}  // namespace stator::fake
