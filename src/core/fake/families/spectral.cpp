#include <ATen/Context.h>

#include <algorithm>
#include <numeric>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

using Positions = c10::SmallVector<int64_t, 5>;

void require_known_library(const Args& args) {
  // The layouts below are those of MKL and cuFFT. pocketfft gives others.
  const at::Tensor& self = args.tensor(0);
  require(self.is_cuda() || (self.is_cpu() && at::hasMKL()), args, "only the layouts of MKL and cuFFT are known");
}

Positions read_dims(const Args& args, size_t position) {
  const int64_t rank = args.tensor(0).dim();
  Positions dims;
  for (const int64_t dim : args.ints(position)) dims.push_back(dim < 0 ? dim + rank : dim);
  return dims;
}

/// Outermost dimension (largest stride) first. Uses the same unstable sort as the kernel, so that equal strides end up
/// in the same order.
template <class Iterator>
void sort_by_stride(const at::Tensor& self, Iterator begin, Iterator end) {
  const auto strides = self.sym_strides();
  std::sort(begin, end, [&](int64_t a, int64_t b) {
    return is_less(strides[static_cast<size_t>(b)], strides[static_cast<size_t>(a)]);
  });
}

/// The result of a transform. Batch dimensions are outermost, in the order of the input's strides; then come the
/// transformed ones.
at::Tensor transformed(const at::Tensor& self, c10::SymIntArrayRef sizes, const Positions& dims, at::ScalarType dtype) {
  const auto rank = static_cast<size_t>(self.dim());
  Positions order(rank);
  std::iota(order.begin(), order.end(), 0);
  const auto batch_end = std::partition(
      order.begin(), order.end(), [&](int64_t dim) { return std::find(dims.begin(), dims.end(), dim) == dims.end(); });
  sort_by_stride(self, order.begin(), batch_end);
  std::copy(dims.begin(), dims.end(), batch_end);
  Dims strides(rank);
  c10::SymInt next = 1;
  for (size_t i = rank; i-- > 0;) {
    const auto dim = static_cast<size_t>(order[i]);
    strides[dim] = next;
    next = next * sizes[dim].max(1);
  }
  return make_fake(sizes, strides, dtype, self.device());
}

/// cuFFT transforms at most this many dimensions at a time.
constexpr size_t kMostDims = 3;

/// Whether one call of cuFFT transforms real numbers to complex ones, or back, over all these dimensions.
bool is_one_step(const Positions& dims) {
  return dims.size() <= kMostDims && !(dims.size() >= 2 && dims[0] == 0 && dims[1] == 1);
}

/// What cuFFT gives for complex transforms over `dims`, a few at a time, innermost first.
at::Tensor transformed_in_steps(at::Tensor input, Positions dims) {
  do {
    sort_by_stride(input, dims.begin(), dims.end());
    const size_t count = std::min(kMostDims, dims.size());
    const Positions last(dims.end() - static_cast<std::ptrdiff_t>(count), dims.end());
    dims.resize(dims.size() - count);
    input = transformed(input, input.sym_sizes(), last, input.scalar_type());
  } while (!dims.empty());
  return input;
}

/// cuFFT's results of real input. `sizes` are those of the result, `halved` those of its independent half.
at::Tensor cuda_r2c(const at::Tensor& self, const Dims& sizes, const Dims& halved, const Positions& dims) {
  const at::ScalarType dtype = at::toComplexType(self.scalar_type());
  if (is_one_step(dims)) return transformed(self, sizes, dims, dtype);
  at::Tensor result = transformed(self, halved, Positions{dims.back()}, dtype);
  result = transformed_in_steps(result, Positions(dims.begin(), dims.end() - 1));
  return result.sym_sizes() == c10::SymIntArrayRef(sizes) ? result : make_contiguous(sizes, dtype, self.device());
}

/// cuFFT's real result of these sizes.
at::Tensor cuda_c2r(const at::Tensor& self, const Dims& sizes, const Positions& dims) {
  const at::ScalarType dtype = at::toRealValueType(self.scalar_type());
  if (is_one_step(dims)) return transformed(new_like(self, at::MemoryFormat::Contiguous), sizes, dims, dtype);
  const at::Tensor input = transformed_in_steps(self, Positions(dims.begin(), dims.end() - 1));
  return transformed(input, sizes, Positions{dims.back()}, dtype);
}

void fft_c2c(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_known_library(args);
  const at::Tensor& self = args.tensor(0);
  require(self.is_complex(), args, "the input is not complex");
  Positions dims = read_dims(args, 1);
  if (dims.empty()) return args.returns(new_like(self));
  if (self.is_cuda()) return args.returns(transformed_in_steps(self, std::move(dims)));
  sort_by_stride(self, dims.begin(), dims.end());
  args.returns(transformed(self, self.sym_sizes(), dims, self.scalar_type()));
}

void fft_r2c(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_known_library(args);
  const at::Tensor& self = args.tensor(0);
  require(self.is_floating_point(), args, "the input is not real");
  Positions dims = read_dims(args, 1);
  require(!dims.empty(), args, "no dimension to transform");
  Dims sizes(self.sym_sizes().begin(), self.sym_sizes().end()), halved = sizes;
  c10::SymInt& last = halved[static_cast<size_t>(dims.back())];
  last = last / 2 + 1;
  if (args.boolean(3)) sizes = halved;
  if (self.is_cuda()) return args.returns(cuda_r2c(self, sizes, halved, dims));
  sort_by_stride(self, dims.begin(), dims.end() - 1);
  args.returns(transformed(self, sizes, dims, at::toComplexType(self.scalar_type())));
}

void fft_c2r(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_known_library(args);
  const at::Tensor& self = args.tensor(0);
  require(self.is_complex(), args, "the input is not complex");
  Positions dims = read_dims(args, 1);
  require(!dims.empty(), args, "no dimension to transform");
  Dims sizes(self.sym_sizes().begin(), self.sym_sizes().end());
  sizes[static_cast<size_t>(dims.back())] = args.sym_int(3);
  if (self.is_cuda()) return args.returns(cuda_c2r(self, sizes, dims));
  at::Tensor input = self;
  if (dims.size() > 1) {
    // The kernel first transforms all dimensions but the last by a complex transform.
    Positions others(dims.begin(), dims.end() - 1);
    sort_by_stride(self, others.begin(), others.end());
    input = transformed(self, self.sym_sizes(), others, self.scalar_type());
  }
  args.returns(transformed(input, sizes, Positions{dims.back()}, at::toRealValueType(self.scalar_type())));
}

const ShapeRow kSpectralRows[] = {
#include "core/ops/spectral.def"
};

}  // namespace

void register_spectral() { add_shapes(kSpectralRows); }

}  // namespace stator::fake
