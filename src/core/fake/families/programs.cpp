#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/families/view_geometry.h"
#include "core/fake/iterator.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"
#include "core/shapes/data_scope.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

/// Runs the CPU kernel on fakes. Right for kernels that only call other operators or look at metadata. A kernel that
/// read data would throw.
void run_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  for (size_t i = 0; i < args.count(); ++i) {
    require(!args[i].isTensor() || !args.tensor(i).defined() || args.tensor(i).device().is_cpu(), args,
            "only the CPU kernel calls other operators");
  }
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

void repeat(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto repeats = args.sym_ints(1);
  const size_t rank = static_cast<size_t>(self.dim());
  require(repeats.size() >= rank, args, "fewer repeats than dimensions");
  Dims sizes(repeats.begin(), repeats.end());
  for (const c10::SymInt& count : repeats) require(count >= 0, args, "a negative repeat");
  for (size_t i = 0; i < rank; ++i) {
    c10::SymInt& size = sizes[repeats.size() - rank + i];
    size = size * self.sym_sizes()[i];
  }
  args.returns(new_contiguous(self, sizes));
}

/// The indices that repeat each row as often as given. Their number is `output_size`, or depends on data.
void repeat_interleave(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& repeats = args.tensor(0);
  require(repeats.dim() == 1, args, "repeats are not a vector");
  require(!args.is_none(1) || shapes::env_for_sizes() != nullptr, args, "the size of the result depends on values");
  args.returns(new_contiguous(repeats, Dims{args.is_none(1) ? shapes::new_size(INT64_MAX) : args.sym_int(1)}));
}

void masked_softmax(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(0).device().is_cpu(), args, "only the CPU kernel's layout is known");
  args.returns(new_like(args.tensor(0), at::MemoryFormat::Contiguous));
}

/// (self, dim): one half of the dimension times a function of the other.
void glu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require(self.dim() > 0, args, "a tensor without dimensions");
  const int64_t dim = wrap_dim(args.integer(1), self.dim());
  ViewGeometry half(self);
  require(half.sizes[dim] % 2 == 0, args, "an odd size");
  half.sizes[dim] = half.sizes[dim] / 2;
  const at::Tensor part = half.make(self);
  args.returns(iterate({&part, &part}, self.scalar_type(), self.device()));
}

/// (self, shifts, dims). Without dimensions the CPU kernel rolls a row-major copy; otherwise it joins parts. The CUDA
/// kernel writes a row-major result.
void roll(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  if (self.is_cuda()) return args.returns(new_like(self, at::MemoryFormat::Contiguous));
  if (!takes_symbols(args)) return run_cpu_kernel(op, stack);
  const auto shifts = args.sym_ints(1);
  const auto dims = args.ints(2);
  require(!shifts.empty() && shifts.size() == std::max<size_t>(dims.size(), 1), args, "not a shift for each dimension");
  for (const int64_t dim : dims) c10::maybe_wrap_dim(dim, self.dim());
  if (self.sym_numel() == 0) return args.returns(new_like(self));
  args.returns(new_like(self, dims.empty() ? at::MemoryFormat::Contiguous : suggested_format(self)));
}

void glu_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

void log_sigmoid_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(is_on_known_device(args.tensor(0)), args, "the kernel of this device is not known");
  require(args.tensor(0).sym_sizes().equals(args.tensor(1).sym_sizes()), args, "gradient and input differ in shape");
  args.returns(new_like(args.tensor(0)));
}

/// `(grad, self, weight)`; both gradients have the broadcast shape.
void prelu_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Inputs inputs{&args.tensor(1), &args.tensor(2), &args.tensor(0)};
  const at::ScalarType dtype = common_dtype(inputs);
  const c10::Device device = common_device(inputs);
  args.returns(iterate(inputs, dtype, device), iterate(inputs, dtype, device));
}

void histogram_count(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const int64_t bins = args.integer(1);
  require(bins > 0, args, "no bins");
  args.returns(new_contiguous(args.tensor(0), c10::IntArrayRef{bins}),
               new_contiguous(args.tensor(0), c10::IntArrayRef{bins + 1}));
}

void histogram_edges(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& edges = args.tensor(1);
  require(edges.dim() == 1 && edges.sym_size(0) > 1, args, "the edges are not a vector");
  args.returns(new_contiguous(args.tensor(0), Dims{edges.sym_size(0) - 1}), new_contiguous(edges, edges.sym_sizes()));
}

/// `(self, bins, ...)`: a histogram over the last dimension of `self`, with this many bins along each of its columns.
void require_columns(const Args& args, size_t bins) {
  const at::Tensor& self = args.tensor(0);
  require(self.dim() >= 2 && self.sym_size(-1) == static_cast<int64_t>(bins), args,
          "not a column for each list of bins");
  require(self.is_floating_point() && self.device().is_cpu(), args, "values of another kind");
}

void histogram_edges_by_count(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<int64_t> bins = args.ints(1);
  require_columns(args, bins.size());
  c10::List<at::Tensor> edges;
  for (const int64_t count : bins) {
    require(count > 0, args, "no bins");
    edges.push_back(new_contiguous(args.tensor(0), c10::IntArrayRef{count + 1}));
  }
  args.returns(std::move(edges));
}

void histogram_by_counts(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<int64_t> bins = args.ints(1);
  require_columns(args, bins.size());
  require(std::all_of(bins.begin(), bins.end(), [](int64_t count) { return count > 0; }), args, "no bins");
  args.returns(new_contiguous(args.tensor(0), c10::IntArrayRef(bins)));
}

void histogram_by_edges(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<at::Tensor> bins = args.tensors(1);
  require_columns(args, bins.size());
  Dims sizes;
  for (const at::Tensor& edges : bins) {
    require(edges.dim() == 1 && edges.sym_size(0) > 1 && edges.scalar_type() == args.tensor(0).scalar_type(), args,
            "the edges are not a vector");
    sizes.push_back(edges.sym_size(0) - 1);
  }
  args.returns(new_contiguous(args.tensor(0), sizes));
}

void weight_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &direction = args.tensor(0), &length = args.tensor(1);
  require(is_on_known_device(direction), args, "the kernel of this device is not known");
  const bool is_wider =
      length.scalar_type() == at::kBFloat16 || (length.is_cuda() && length.scalar_type() == at::kHalf);
  const auto dtype = is_wider ? at::kFloat : length.scalar_type();
  args.returns(new_like(direction, at::MemoryFormat::Contiguous),
               make_fake(length.sym_sizes(), length.sym_strides(), dtype, length.device()));
}

void weight_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(is_on_known_device(args.tensor(0)), args, "the kernel of this device is not known");
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous),
               new_like(args.tensor(2), at::MemoryFormat::Contiguous));
}

const ShapeRow kProgramsRows[] = {
#include "core/ops/programs.def"
};

}  // namespace

void register_programs() { add_shapes(kProgramsRows); }

}  // namespace stator::fake
