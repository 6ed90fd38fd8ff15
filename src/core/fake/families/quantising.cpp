#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

/// The tensor after quantisation, and a mask of the elements that were within the range.
void with_mask(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  args.returns(new_like(self), make_fake(self.sym_sizes(), like_strides(self), at::kBool, self.device()));
}

void without_mask(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(0)));
}

/// The product of two matrices of 8-bit integers, in 32 bits.
void int_mm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &a = args.tensor(0), &b = args.tensor(1);
  require(a.dim() == 2 && b.dim() == 2 && a.sym_size(1) == b.sym_size(0), args, "not two matrices that fit");
  require(a.scalar_type() == at::kChar && b.scalar_type() == at::kChar, args, "not 8-bit integers");
  args.returns(make_contiguous(Dims{a.sym_size(0), b.sym_size(1)}, at::kInt, a.device()));
}

const ShapeRow kQuantisingRows[] = {
#include "core/ops/quantising.def"
};

}  // namespace

void register_quantising() { add_shapes(kQuantisingRows); }

}  // namespace stator::fake
