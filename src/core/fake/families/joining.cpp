#include <ATen/ops/cat.h>
#include <ATen/ops/unsqueeze.h>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/iterator.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

/// For historical reasons, `cat` skips an empty vector whatever the shapes of the other tensors. A vector of symbolic
/// size must have the rank of the others.
bool joins_anything(const at::Tensor& tensor) {
  return tensor.dim() == 1 && shapes::known(tensor.sym_size(0).sym_eq(0)).value_or(false);
}

/// The memory format that all tensors suggest; row-major if they differ.
at::MemoryFormat joint_format(const std::vector<at::Tensor>& tensors) {
  const at::MemoryFormat format = suggested_format(tensors[0]);
  for (const at::Tensor& tensor : tensors) {
    if (suggested_format(tensor) != format) return at::MemoryFormat::Contiguous;
  }
  return format;
}

void cat(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<at::Tensor> tensors = args.tensors(0);
  require(!tensors.empty(), args, "nothing to join");
  Inputs inputs;
  const at::Tensor* model = nullptr;
  for (const at::Tensor& tensor : tensors) {
    require(tensor.defined() && tensor.dim() > 0, args, "a scalar can't be joined");
    require(tensor.device() == tensors[0].device(), args, "tensors on different devices");
    inputs.push_back(&tensor);
    if (!model && !joins_anything(tensor)) model = &tensor;
  }
  const at::ScalarType dtype = common_dtype(inputs);
  if (!model) return args.returns(make_contiguous(Dims{c10::SymInt(0)}, dtype, tensors[0].device()));
  const int64_t rank = model->dim(), given = args.integer(1), dim = given < 0 ? given + rank : given;
  require(dim >= 0 && dim < rank, args, "dimension out of range");
  Dims sizes(model->sym_sizes().begin(), model->sym_sizes().end());
  c10::SymInt& joined = sizes[static_cast<size_t>(dim)];
  joined = 0;
  for (const at::Tensor& tensor : tensors) {
    if (joins_anything(tensor)) continue;
    require(tensor.dim() == rank, args, "tensors differ in rank");
    for (int64_t i = 0; i < rank; ++i) {
      require(i == dim || tensor.sym_size(i) == model->sym_size(i), args, "tensors differ in another dimension");
    }
    joined = joined + tensor.sym_size(dim);
  }
  const at::MemoryFormat format = joint_format(tensors);
  args.returns(format == at::MemoryFormat::Contiguous ? make_contiguous(sizes, dtype, model->device())
                                                      : make_in_format(sizes, format, dtype, model->device()));
}

/// Matrices along a diagonal. A vector is a row.
void block_diag(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<at::Tensor> tensors = args.tensors(0);
  require(!tensors.empty(), args, "nothing to join");
  Inputs inputs;
  c10::SymInt rows = 0, columns = 0;
  for (const at::Tensor& tensor : tensors) {
    require(tensor.dim() <= 2 && tensor.device() == tensors[0].device(), args, "not matrices on one device");
    inputs.push_back(&tensor);
    rows = rows + (tensor.dim() == 2 ? tensor.sym_size(0) : c10::SymInt(1));
    columns = columns + (tensor.dim() == 0 ? c10::SymInt(1) : tensor.sym_size(-1));
  }
  args.returns(make_contiguous(Dims{rows, columns}, common_dtype(inputs), tensors[0].device()));
}

/// As torch's implementation, for symbolic sizes.
void stack_tensors(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  std::vector<at::Tensor> tensors = args.tensors(0);
  require(!tensors.empty(), args, "nothing to join");
  const int64_t rank = tensors[0].dim(), given = args.integer(1), dim = given < 0 ? given + rank + 1 : given;
  require(dim >= 0 && dim <= rank, args, "dimension out of range");
  for (const at::Tensor& tensor : tensors) {
    require(tensor.sym_sizes() == tensors[0].sym_sizes(), args, "tensors differ in shape");
  }
  if (dim == rank) {
    for (at::Tensor& tensor : tensors) tensor = at::unsqueeze(tensor, dim);
    return args.returns(at::cat(tensors, dim));
  }
  Dims sizes(tensors[0].sym_sizes().begin(), tensors[0].sym_sizes().end());
  sizes.insert(sizes.begin() + dim, c10::SymInt(static_cast<int64_t>(tensors.size())));
  args.returns(at::cat(tensors, dim).view_symint(sizes));
}

/// The CUDA kernel of (tensors, dim, num_chunks): each tensor, padded, in chunks along `dim`; the chunks are joined.
void chunk_cat(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<at::Tensor> tensors = args.tensors(0);
  const int64_t chunks = args.integer(2);
  require(!tensors.empty() && tensors[0].dim() > 0 && chunks > 0, args, "no tensors or no chunks");
  const auto dim = static_cast<size_t>(wrap_dim(args.integer(1), tensors[0].dim()));
  c10::SymInt width = 0;
  for (const at::Tensor& tensor : tensors) {
    const auto sizes = tensor.sym_sizes();
    require(sizes.size() > dim && sizes.slice(0, dim) == tensors[0].sym_sizes().slice(0, dim), args,
            "the tensors differ in shape");
    c10::SymInt rest = (sizes[dim] + (chunks - 1)) / chunks;
    for (size_t i = dim + 1; i < sizes.size(); ++i) rest = rest * sizes[i];
    width = width + rest;
  }
  Dims sizes(tensors[0].sym_sizes().begin(), tensors[0].sym_sizes().begin() + static_cast<std::ptrdiff_t>(dim));
  sizes.push_back(chunks);
  sizes.push_back(width);
  args.returns(new_contiguous(tensors[0], sizes));
}

const ShapeRow kJoiningRows[] = {
#include "core/ops/joining.def"
};

}  // namespace

void register_joining() { add_shapes(kJoiningRows); }

}  // namespace stator::fake
