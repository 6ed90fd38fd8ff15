
#include <algorithm>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/iterator.h"
#include "core/fake/meta_tier.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"
#include "core/shapes/data_scope.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

bool is_index_dtype(const at::Tensor& index) {
  return index.scalar_type() == at::kLong || index.scalar_type() == at::kInt;
}

void embedding(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &weight = args.tensor(0), &indices = args.tensor(1);
  require(weight.dim() == 2 && is_index_dtype(indices), args, "not integers into a 2-d weight");
  Dims sizes(indices.sym_sizes().begin(), indices.sym_sizes().end());
  sizes.push_back(weight.sym_size(1));
  args.returns(new_contiguous(weight, sizes));
}

void embedding_dense_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &grad = args.tensor(0), &indices = args.tensor(1);
  require(grad.dim() >= 1 && is_index_dtype(indices), args, "not integers into a 2-d weight");
  args.returns(new_contiguous(grad, Dims{args.sym_int(2), grad.sym_size(-1)}));
}

/// Scales rows of the weight in place.
void embedding_renorm_(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(0).dim() == 2 && is_index_dtype(args.tensor(1)), args, "not integers into a 2-d weight");
  args.returns(args.tensor(0));
}

void index_select(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &index = args.tensor(2);
  require(index.dim() <= 1 && is_index_dtype(index), args, "the index is not a vector of integers");
  Dims sizes(self.sym_sizes().begin(), self.sym_sizes().end());
  const int64_t rank = std::max<int64_t>(self.dim(), 1), dim = args.integer(1);
  require(dim >= -rank && dim < rank, args, "dimension out of range");
  if (!sizes.empty()) {
    sizes[static_cast<size_t>(dim < 0 ? dim + rank : dim)] = index.sym_numel();
  } else {
    require(index.sym_numel() == 1, args, "more than one index into a tensor without dimensions");
  }
  args.returns(new_contiguous(self, sizes));
}

/// Whether an index is a mask. The number of elements a mask picks depends on its data.
bool has_mask(const c10::IValue& indices) {
  for (const c10::IValue& item : indices.toListRef()) {
    if (item.isNone() || !item.toTensor().defined()) continue;
    const at::ScalarType dtype = item.toTensor().scalar_type();
    if (dtype == at::kBool || dtype == at::kByte) return true;
  }
  return false;
}

/// `self[indices]` if an index is a mask, or if a size of `self` or of an index is symbolic. As in torch's
/// AdvancedIndex, the kernel iterates over the tensor, with strides of zero in place of the indexed dimensions, and
/// over the indices.
class SymbolicIndex {
 public:
  SymbolicIndex(const Args& args, const at::Tensor& self) : args_(args), self_(self) {
    for (const c10::IValue& item : args[1].toListRef()) {
      if (item.isNone() || !item.toTensor().defined()) {
        pass();
      } else {
        pick(item.toTensor());
      }
    }
    while (at_ < self.dim()) pass();
  }

  at::Tensor result() const {
    const auto before = static_cast<ptrdiff_t>(adjacent_ ? before_ : 0),
               after = static_cast<ptrdiff_t>(sizes_.size()) - before;
    Dims sizes(sizes_), strides(strides_);
    sizes.insert(sizes.begin() + before, picked_.begin(), picked_.end());
    strides.insert(strides.begin() + before, picked_.size(), c10::SymInt(0));
    // Row-major operands give a row-major result, whatever their sizes.
    const bool all_row_major = is_row_major(self_) && std::all_of(indices_.begin(), indices_.end(), is_row_major);
    if (all_row_major) return new_contiguous(self_, sizes);
    c10::SmallVector<at::Tensor, 4> operands{make_view(self_, sizes, strides, self_.sym_storage_offset())};
    for (const at::Tensor& index : indices_) {
      Dims shape(index.sym_sizes().begin(), index.sym_sizes().end());
      Dims along(index.sym_strides().begin(), index.sym_strides().end());
      shape.append(after, c10::SymInt(1));
      along.append(after, c10::SymInt(0));
      operands.push_back(make_view(index, shape, along, index.sym_storage_offset()));
    }
    Inputs inputs;
    for (const at::Tensor& operand : operands) inputs.push_back(&operand);
    return iterate(inputs, self_.scalar_type(), self_.device());
  }

 private:
  void pass() {
    require(at_ < self_.dim(), args_, "too many indices");
    sizes_.push_back(self_.sym_size(at_));
    strides_.push_back(self_.sym_stride(at_++));
    if (!any_) ++before_;
    if (any_) gap_ = true;
  }

  void pick(const at::Tensor& index) {
    require(index.device() == self_.device(), args_, "tensors on different devices");
    if (any_ && gap_) adjacent_ = false;
    any_ = true;
    if (index.scalar_type() == at::kBool) {
      for (int64_t i = 0; i < index.dim(); ++i) {
        require(at_ < self_.dim(), args_, "too many indices");
        require(index.sym_size(i) == self_.sym_size(at_++), args_, "a mask whose size is not that of the tensor");
      }
      require(index.dim() > 0, args_, "a mask without dimensions");
      const Dims picked{shapes::new_size(index.sym_numel())};
      return broadcast(make_contiguous(picked, at::kLong, index.device()));
    }
    require(is_index_dtype(index), args_, "an index that is neither a mask nor of integers");
    require(at_ < self_.dim(), args_, "too many indices");
    ++at_;
    broadcast(index);
  }

  void broadcast(const at::Tensor& index) {
    const at::Tensor shape = make_contiguous(picked_, at::kLong, index.device());
    picked_ = broadcast_sizes({&shape, &index});
    indices_.push_back(index);
  }

  const Args& args_;
  const at::Tensor& self_;
  Dims sizes_, strides_, picked_;  // of the dimensions that are kept; of the indices
  c10::SmallVector<at::Tensor, 4> indices_;
  int64_t at_ = 0, before_ = 0;
  bool any_ = false, gap_ = false, adjacent_ = true;
};

bool has_symbolic(const c10::IValue& indices) {
  for (const c10::IValue& item : indices.toListRef()) {
    if (item.isTensor() && is_symbolic(item.toTensor())) return true;
  }
  return false;
}

void index(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  if (!has_mask(args[1]) && !is_symbolic(self) && !has_symbolic(args[1])) return run_meta_kernel(op, stack);
  require(!has_mask(args[1]) || shapes::env_for_sizes() != nullptr, args,
          "a mask as index gives a size that depends on data");
  args.returns(SymbolicIndex(args, self).result());
}

void index_put(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(0).scalar_type() == args.tensor(2).scalar_type(), args, "values and target differ in dtype");
  args.returns(new_like(args.tensor(0)));
}

void index_put_(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(0).scalar_type() == args.tensor(2).scalar_type(), args, "values and target differ in dtype");
  args.returns(args.tensor(0));
}

/// Whether `tensor` broadcasts to the shape of `target`.
bool expands_to(const at::Tensor& tensor, const at::Tensor& target) {
  if (tensor.dim() > target.dim()) return false;
  for (int64_t i = 1; i <= tensor.dim(); ++i) {
    if (tensor.sym_size(-i) != target.sym_size(-i) && tensor.sym_size(-i) != 1) return false;
  }
  return true;
}

/// `(self, mask, source)`, in place.
void masked_scatter_(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &mask = args.tensor(1);
  require(mask.scalar_type() == at::kBool && expands_to(mask, self), args, "not a mask that broadcasts to the target");
  require(args.tensor(2).scalar_type() == self.scalar_type(), args, "source and target differ in dtype");
  args.returns(self);
}

/// `(self, dim, index, value)`, in place.
void index_fill_(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t rank = std::max<int64_t>(self.dim(), 1), dim = args.integer(1);
  require(args.tensor(2).dim() <= 1 && args.tensor(2).scalar_type() == at::kLong && dim >= -rank && dim < rank, args,
          "the index is not a vector of integers into a dimension");
  require(!args[3].isTensor() || args.tensor(3).dim() == 0, args, "the value is not a scalar");
  require(self.is_complex() || !(args[3].isTensor() ? args.tensor(3).is_complex() : args[3].isComplexDouble()), args,
          "a complex value for a real tensor");
  args.returns(self);
}

/// `(self, index, source, accumulate)`, in place.
void put_(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(1).scalar_type() == at::kLong && args.tensor(1).sym_numel() == args.tensor(2).sym_numel() &&
              args.tensor(0).scalar_type() == args.tensor(2).scalar_type(),
          args, "index and source differ in size or dtype");
  args.returns(args.tensor(0));
}

void take(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& indices = args.tensor(1);
  require(indices.scalar_type() == at::kLong, args, "the index is not of 64-bit integers");
  args.returns(new_contiguous(args.tensor(0), indices.sym_sizes()));
}

void flip(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  std::vector<bool> seen(static_cast<size_t>(self.dim()), false);
  for (const int64_t dim : args.ints(1)) {
    const int64_t positive = dim < 0 ? dim + self.dim() : dim;
    require(positive >= 0 && positive < self.dim() && !seen[static_cast<size_t>(positive)], args,
            "a dimension out of range or given twice");
    seen[static_cast<size_t>(positive)] = true;
  }
  args.returns(new_like(self));
}

void unfold_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto sizes = args.sym_ints(1);
  args.returns(new_contiguous(args.tensor(0), c10::SymIntArrayRef(sizes)));
}

void masked_scatter_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto sizes = args.sym_ints(2);
  args.returns(new_contiguous(args.tensor(0), c10::SymIntArrayRef(sizes)));
}

void narrow_copy(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t dim = args.integer(1) < 0 ? args.integer(1) + self.dim() : args.integer(1);
  require(dim >= 0 && dim < self.dim(), args, "dimension out of range");
  c10::SymInt start = args.sym_int(2);
  const c10::SymInt length = args.sym_int(3), size = self.sym_size(dim);
  if (start < 0) start = start + size;
  require(length >= 0 && start >= 0 && start + length <= size, args, "a range outside of the dimension");
  // The kernel allocates its result like the input, and resizes it to a row-major one if the sizes differ.
  if (length == size) return args.returns(new_like(self));
  Dims sizes(self.sym_sizes().begin(), self.sym_sizes().end());
  sizes[static_cast<size_t>(dim)] = length;
  args.returns(new_contiguous(self, sizes));
}

/// `(data, reduce, lengths?, indices?, offsets?, axis, ...)`
void segment_reduce(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& data = args.tensor(0);
  const at::Tensor lengths = args.optional_tensor(2), offsets = args.optional_tensor(4);
  const at::Tensor& segments = lengths.defined() ? lengths : offsets;
  const int64_t axis = args.integer(5) < 0 ? args.integer(5) + data.dim() : args.integer(5);
  require(segments.defined() && args.is_none(3) && axis >= 0 && axis < data.dim() && segments.dim() == axis + 1, args,
          "segments do not match the data");
  Dims sizes(segments.sym_sizes().begin(), segments.sym_sizes().end());
  if (!lengths.defined()) sizes.back() = sizes.back() - 1;
  for (int64_t i = axis + 1; i < data.dim(); ++i) sizes.push_back(data.sym_size(i));
  args.returns(new_contiguous(data, sizes));
}

/// `(grad, output, data, ...)`
void segment_reduce_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_contiguous(args.tensor(0), args.tensor(2).sym_sizes()));
}

const ShapeRow kIndexingRows[] = {
#include "core/ops/indexing.def"
};

}  // namespace

void register_indexing() { add_shapes(kIndexingRows); }

}  // namespace stator::fake
