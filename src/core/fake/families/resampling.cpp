#include <algorithm>

#include "core/fake/families/gradients.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/families/view_geometry.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/shapes/sym_node.h"

/// Paddings, and images resampled to another size.
namespace stator::fake {
namespace {

/// The sizes of the padded input. The list of paddings begins at the last dimension.
Dims padded_sizes(const Args& args, const at::Tensor& input, const std::vector<c10::SymInt>& padding, int64_t spatial) {
  require(static_cast<int64_t>(padding.size()) == 2 * spatial, args, "the wrong number of paddings");
  require(input.dim() == spatial + 1 || input.dim() == spatial + 2, args, "the wrong number of dimensions");
  const bool reflects = args.op().schema().name().find("reflection") != std::string::npos;
  Dims sizes(input.sym_sizes().begin(), input.sym_sizes().end());
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    c10::SymInt& size = sizes[sizes.size() - 1 - i];
    require(!reflects || (padding[2 * i] < size && padding[2 * i + 1] < size), args, "padding is not below the size");
    size = size + padding[2 * i] + padding[2 * i + 1];
    require(size >= 1, args, "the output is too small");
  }
  return sizes;
}

/// Pads `[N,] C, spatial...`; the result has the input's memory format on the CPU and is row-major on CUDA.
template <int64_t kSpatial>
void pad(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const auto format = kSpatial == 1 || input.is_cuda() ? at::MemoryFormat::Contiguous : suggested_format(input);
  args.returns(new_in_format(input, padded_sizes(args, input, args.sym_ints(1), kSpatial), format));
}

/// `(grad, input, padding)`
template <int64_t kSpatial, Rule gradient>
void pad_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Args args(op, stack);
  const Dims sizes = padded_sizes(args, args.tensor(1), args.sym_ints(2), kSpatial);
  require(args.tensor(0).sym_sizes() == c10::SymIntArrayRef(sizes), args, "the gradient has another shape");
  gradient(op, stack);
}

/// Whether a copy of a part of the tensor with these sizes, and a new tensor, have the same strides for all values of
/// the symbols. The copy of a part with a size of 1 may keep a stride.
bool is_row_major_either_way(const at::Tensor& self, c10::SymIntArrayRef sizes) {
  const auto strides = self.sym_strides();
  const auto row_major = contiguous_strides(self.sym_sizes());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!always_equal(strides[i], row_major[i])) return false;
    if (shapes::known(sizes[i].sym_ge(2)) != true) return false;
  }
  return true;
}

/// `(self, padding, value)`
void constant_pad(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto padding = args.sym_ints(1);
  require(padding.size() % 2 == 0 && static_cast<int64_t>(padding.size()) <= 2 * self.dim(), args,
          "the wrong number of paddings");
  ViewGeometry view(self);
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    c10::SymInt& size = view.sizes[view.sizes.size() - 1 - i];
    size = size + padding[2 * i] + padding[2 * i + 1];
    require(size >= 0, args, "the output is too small");
  }
  if (is_row_major_either_way(self, view.sizes)) return args.returns(new_contiguous(self, view.sizes));
  // If nothing is added, the kernel copies a part of the tensor.
  const bool only_cuts = std::all_of(padding.begin(), padding.end(), [](const c10::SymInt& by) { return by <= 0; });
  args.returns(only_cuts ? new_like(view.make(self)) : new_in_format(self, view.sizes, suggested_format(self)));
}

/// `(self, output_size, ...)`
template <size_t kSpatial>
void upsample(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto spatial = args.sym_ints(1);
  require(self.dim() == kSpatial + 2 && spatial.size() == kSpatial, args, "the wrong number of dimensions");
  Dims sizes{self.sym_size(0), self.sym_size(1)};
  for (size_t i = 0; i < kSpatial; ++i) {
    require(spatial[i] > 0 && self.sym_sizes()[i + 2] > 0, args, "an empty image");
    sizes.push_back(spatial[i]);
  }
  require(self.sym_size(1) > 0, args, "no channels");
  args.returns(new_in_format(self, sizes, suggested_format(self)));
}

/// `(grad, output_size, input_size, ...)`
template <size_t kSpatial, bool row_major = kSpatial == 1>
void upsample_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& grad = args.tensor(0);
  const auto spatial = args.sym_ints(1), input = args.sym_ints(2);
  require(grad.dim() == kSpatial + 2 && spatial.size() == kSpatial && input.size() == kSpatial + 2, args,
          "the wrong number of dimensions");
  for (size_t i = 0; i < kSpatial + 2; ++i) {
    require(grad.sym_sizes()[i] == (i < 2 ? input[i] : spatial[i - 2]), args, "the gradient has another shape");
  }
  const auto format = row_major ? at::MemoryFormat::Contiguous : suggested_format(grad);
  args.returns(new_in_format(grad, c10::SymIntArrayRef(input), format));
}

const ShapeRow kResamplingRows[] = {
#include "core/ops/resampling.def"
};

}  // namespace

void register_resampling() { add_shapes(kResamplingRows); }

}  // namespace stator::fake
