#include <c10/core/ScalarType.h>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

/// `(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)`
struct Bags {
  const at::Tensor &weight, &indices, &offsets;
  int64_t mode;
  at::Tensor scale;
  bool last_offset;
  int64_t padding;

  explicit Bags(const Args& args)
      : weight(args.tensor(0)),
        indices(args.tensor(1)),
        offsets(args.tensor(2)),
        mode(args.integer(4)),
        scale(args.optional_tensor(6)),
        last_offset(args.boolean(7)),
        padding(args.integer(8)) {
    require(weight.dim() == 2 && indices.dim() == 1 && offsets.dim() == 1, args, "the wrong number of dimensions");
    require(mode == kSum || mode == kMean || mode == kMax, args, "an unknown mode");
    require(!last_offset || offsets.sym_size(0) >= 1, args, "include_last_offset without an offset");
    require(is_on_known_device(weight), args, "the kernel of this device is not known");
  }

  c10::SymInt count() const { return offsets.sym_size(0) - (last_offset ? 1 : 0); }

  /// The fast kernel for plain sums returns an empty map from elements to bags.
  bool needs_bag_of_element() const {
    const at::ScalarType dtype = weight.scalar_type();
    const bool fast = (dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16) &&
                      weight.sym_stride(1) == 1 && padding < 0 && (!scale.defined() || scale.sym_stride(0) == 1);
    return mode != kSum || !fast;
  }
};

void embedding_bag_results(Args& args, bool keeps_sizes) {
  const Bags bags(args);
  const at::ScalarType integers = c10::promoteTypes(bags.indices.scalar_type(), bags.offsets.scalar_type());
  const auto make_integers = [&](const Dims& sizes) { return make_contiguous(sizes, integers, bags.weight.device()); };
  if (bags.weight.is_cuda()) {
    return args.returns(
        new_contiguous(bags.weight, Dims{bags.count(), bags.weight.sym_size(1)}),
        make_integers({bags.indices.sym_size(0)}), make_integers({bags.offsets.sym_size(0)}),
        make_integers(bags.mode == kMax ? Dims{bags.count(), bags.weight.sym_size(1)} : Dims{c10::SymInt(0)}));
  }
  const c10::SymInt sized = keeps_sizes || bags.mode != kSum ? bags.count() : bags.offsets.sym_size(0);
  args.returns(new_contiguous(bags.weight, Dims{bags.count(), bags.weight.sym_size(1)}),
               make_integers({bags.needs_bag_of_element() ? bags.indices.sym_size(0) : c10::SymInt(0)}),
               make_integers({sized}),
               bags.mode == kMax ? make_integers({bags.count(), bags.weight.sym_size(1)}) : make_integers({sized}));
}

void embedding_bag(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  embedding_bag_results(args, true);
}

void embedding_bag_forward_only(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  embedding_bag_results(args, false);
}

/// `(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, ...)`
void dense_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& grad = args.tensor(0);
  require(grad.dim() == 2, args, "the gradient is not a matrix");
  args.returns(new_contiguous(grad, Dims{args.sym_int(5), grad.sym_size(1)}));
}

/// `(grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse,
/// ...)`
void backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& grad = args.tensor(0);
  require(!args.boolean(9), args, "a sparse gradient");
  require(grad.dim() == 2, args, "the gradient is not a matrix");
  args.returns(new_contiguous(grad, Dims{args.sym_int(6), grad.sym_size(1)}));
}

void per_sample_weights_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_contiguous(args.tensor(0), Dims{args.tensor(2).sym_size(0)}));
}

const ShapeRow kBagsRows[] = {
#include "core/ops/bags.def"
};

}  // namespace

void register_bags() { add_shapes(kBagsRows); }

}  // namespace stator::fake
