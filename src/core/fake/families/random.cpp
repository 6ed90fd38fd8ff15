#include "core/fake/iterator.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

namespace stator::fake {

namespace {

Specs plain_like(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{dims_of(self), self.scalar_type(), self.device()}};
}

/// (mean, std, ...), of which at least one is a tensor. The first tensor gives the dtype.
void normal(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  Inputs inputs;
  for (size_t i = 0; i < 2; ++i) {
    if (args[i].isTensor()) inputs.push_back(&args.tensor(i));
  }
  const Spec spec{broadcast_sizes(inputs), inputs[0]->scalar_type(), common_device(inputs)};
  args.returns(make(spec));
}

void binomial(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Inputs inputs{&args.tensor(0), &args.tensor(1)};
  const auto dtype = inputs[0]->scalar_type();
  const auto device = common_device(inputs);
  // The kernel allocates a row-major result with the shape of the counts, and another one if that has to grow.
  const Dims sizes = broadcast_sizes(inputs);
  const bool is_kept = inputs[0]->sym_sizes().equals(sizes);
  args.returns(is_kept ? make_contiguous(sizes, dtype, device) : iterate(inputs, dtype, device));
}

Specs multinomial(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  Dims sizes = dims_of(self);
  sizes.back() = args.sym_int(1);
  return {{sizes, at::kLong, self.device()}};
}

/// Returns the values after dropout, and the mask.
void native_dropout(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const at::Tensor mask = make_fake(self.sym_sizes(), like_strides(self), at::kBool, self.device());
  if (self.sym_numel() == 0) return args.returns(self, mask);
  const Inputs inputs{&self, &mask};
  args.returns(iterate(inputs, common_dtype(inputs), self.device()), mask);
}

Specs rrelu(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{dims_of(self), self.scalar_type(), self.device()}};
}

void randperm_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const c10::SymInt count = args.sym_int(0);
  TORCH_CHECK(count >= 0, "n must be non-negative, got", count);
  const at::Tensor& out = args.tensor(args.count() - 1);
  resize_out(out, {count});
  args.returns(out);
}

const ShapeRow kRandomRows[] = {
#include "core/ops/random.def"
};

}  // namespace

void register_random() { add_shapes(kRandomRows); }

}  // namespace stator::fake
