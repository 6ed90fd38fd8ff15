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
  // The layouts below are those of MKL. pocketfft and cuFFT give other layouts.
  require(args.tensor(0).device().is_cpu() && at::hasMKL(), args, "only MKL's layout is known");
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

void fft_c2c(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_known_library(args);
  const at::Tensor& self = args.tensor(0);
  require(self.is_complex(), args, "the input is not complex");
  Positions dims = read_dims(args, 1);
  if (dims.empty()) return args.returns(new_like(self));
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
  sort_by_stride(self, dims.begin(), dims.end() - 1);
  Dims sizes(self.sym_sizes().begin(), self.sym_sizes().end());
  if (args.boolean(3)) {
    c10::SymInt& halved = sizes[static_cast<size_t>(dims.back())];
    halved = halved / 2 + 1;
  }
  args.returns(transformed(self, sizes, dims, at::toComplexType(self.scalar_type())));
}

void fft_c2r(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_known_library(args);
  const at::Tensor& self = args.tensor(0);
  require(self.is_complex(), args, "the input is not complex");
  Positions dims = read_dims(args, 1);
  require(!dims.empty(), args, "no dimension to transform");
  at::Tensor input = self;
  if (dims.size() > 1) {
    // The kernel first transforms all dimensions but the last by a complex transform.
    Positions others(dims.begin(), dims.end() - 1);
    sort_by_stride(self, others.begin(), others.end());
    input = transformed(self, self.sym_sizes(), others, self.scalar_type());
  }
  Dims sizes(self.sym_sizes().begin(), self.sym_sizes().end());
  sizes[static_cast<size_t>(dims.back())] = args.sym_int(3);
  args.returns(transformed(input, sizes, Positions{dims.back()}, at::toRealValueType(self.scalar_type())));
}

const ShapeRow kSpectralRows[] = {
#include "core/ops/spectral.def"
};

}  // namespace

void register_spectral() { add_shapes(kSpectralRows); }

}  // namespace stator::fake
