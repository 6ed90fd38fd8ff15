
#include "core/fake/families/shape_helpers.h"
#include "core/fake/meta_tier.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"
#include "core/shapes/current.h"
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

/// The sizes of `self[indices]` if an index is a mask, or if a size of `self` or of an index is symbolic. Row-major
/// operands give a row-major result.
class SymbolicIndex {
 public:
  SymbolicIndex(const Args& args, const at::Tensor& self) : args_(args), self_(self) {
    require(is_row_major(self), args, "the indexed tensor is not row-major");
    for (const c10::IValue& item : args[1].toListRef()) {
      if (item.isNone() || !item.toTensor().defined()) {
        pass();
      } else {
        pick(item.toTensor());
      }
    }
    while (at_ < self.dim()) pass();
  }

  Dims sizes() const {
    Dims result(kept_.begin(), kept_.end());
    result.insert(result.begin() + static_cast<ptrdiff_t>(adjacent_ ? before_ : 0), picked_.begin(), picked_.end());
    return result;
  }

 private:
  void pass() {
    require(at_ < self_.dim(), args_, "too many indices");
    kept_.push_back(self_.sym_size(at_++));
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
        require(shapes::known(index.sym_size(i).sym_eq(self_.sym_size(at_++))).value_or(false), args_,
                "a mask whose size is not that of the tensor");
      }
      require(index.dim() > 0, args_, "a mask without dimensions");
      return broadcast({shapes::new_size(index.sym_numel())});
    }
    require(is_index_dtype(index), args_, "an index that is neither a mask nor of integers");
    require(index.dim() <= 1 || is_row_major(index), args_, "an index that is not row-major");
    require(at_ < self_.dim(), args_, "too many indices");
    ++at_;
    broadcast(Dims(index.sym_sizes().begin(), index.sym_sizes().end()));
  }

  void broadcast(const Dims& other) {
    if (other.size() > picked_.size()) picked_.insert(picked_.begin(), other.size() - picked_.size(), c10::SymInt(1));
    const size_t shift = picked_.size() - other.size();
    for (size_t i = 0; i < other.size(); ++i) {
      c10::SymInt& size = picked_[shift + i];
      if (shapes::known(size.sym_eq(1)).value_or(false)) {
        size = other[i];
      } else {
        require(
            shapes::known(size.sym_eq(other[i])).value_or(false) || shapes::known(other[i].sym_eq(1)).value_or(false),
            args_, "indices of different sizes");
      }
    }
  }

  const Args& args_;
  const at::Tensor& self_;
  Dims kept_, picked_;
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
  require(shapes::current_env() != nullptr, args, "a mask as index gives a size that depends on data");
  args.returns(new_contiguous(self, SymbolicIndex(args, self).sizes()));
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
