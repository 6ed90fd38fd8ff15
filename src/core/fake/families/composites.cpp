#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_cdist_forward.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>

#include "core/fake/composite.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"

/// Composite operators that look at data (see core/fake/composite.h).
namespace stator::fake {
namespace {

bool is_without_gradient(const Args& args) {
  return args.tensor(0).device().is_cpu() && !(args.tensor(0).requires_grad() && at::GradMode::is_enabled());
}

/// Without a gradient, one kernel does the pooling. Its result is row-major whatever the layout of the input.
void max_pool1d(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto pooled = std::get<0>(
      at::max_pool1d_with_indices(self, args.ints(1), args.ints(2), args.ints(3), args.ints(4), args.boolean(5)));
  args.returns(new_contiguous(self, pooled.sym_sizes()));
}

bool are_without_gradients(const Args& args) {
  const bool has_gradient = args.tensor(0).requires_grad() || args.tensor(1).requires_grad();
  return args.tensor(0).device().is_cpu() && !(has_gradient && at::GradMode::is_enabled());
}

/// `(x1, x2, p, compute_mode)`. The implementation chooses a kernel by the number of points; the results of all kernels
/// have the same layout.
void cdist(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto mode = args.is_none(3) ? std::nullopt : std::optional(args.integer(3));
  args.returns(at::_cdist_forward(args.tensor(0), args.tensor(1), args[2].toDouble(), mode));
}

bool has_known_losses(const Args& args) { return is_on_known_device(args.tensor(0)); }
/// On CUDA the composite asks `_use_cudnn_ctc_loss`, which reads the lengths. Both kernels return losses of the same
/// shape, so the shape function answers for either.
bool is_on_cuda(const Args& args) { return args.tensor(0).is_cuda(); }

/// `(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)`
void ctc_loss(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& log_probs = args.tensor(0);
  require(log_probs.dim() == 2 || log_probs.dim() == 3, args, "not a sequence of distributions");
  const bool one_each = args.integer(5) == at::Reduction::None && log_probs.dim() == 3;
  args.returns(new_contiguous(log_probs, one_each ? Dims{log_probs.sym_size(1)} : Dims{}));
}

bool has_class_count(const Args& args) { return args.tensor(0).scalar_type() == at::kLong && args.integer(1) > 0; }

void one_hot(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& classes = args.tensor(0);
  Dims sizes(classes.sym_sizes().begin(), classes.sym_sizes().end());
  sizes.push_back(args.integer(1));
  args.returns(new_contiguous(classes, sizes));
}

/// `(self, r, with_replacement)`. torch selects the combinations by a boolean mask; how many of its elements are true
/// follows from the sizes.
bool has_known_length(const Args& args) {
  // Larger products of symbols are not exact in 64 bits.
  constexpr int64_t kMostOfSymbols = 3;
  const bool is_symbol = args.tensor(0).dim() == 1 && args.tensor(0).sym_size(0).is_heap_allocated();
  return args.tensor(0).dim() == 1 && args.integer(1) > 0 && (!is_symbol || args.integer(1) <= kMostOfSymbols);
}

/// How many combinations of `length` of the elements there are.
c10::SymInt count_of_combinations(const c10::SymInt& elements, int64_t length) {
  if (elements < length) return 0;
  c10::SymInt count = 1;
  int64_t orders = 1;
  for (int64_t i = 0; i < length; ++i) {
    count = count * (elements - i);
    orders *= i + 1;
  }
  return count / orders;
}

void combinations(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t length = args.integer(1);
  if (is_symbolic(self)) {
    const c10::SymInt elements = self.sym_size(0) + (args.boolean(2) ? length - 1 : 0);
    return args.returns(new_contiguous(self, Dims{count_of_combinations(elements, length), c10::SymInt(length)}));
  }
  const int64_t elements = self.size(0) + (args.boolean(2) ? length - 1 : 0);
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = elements < length ? 0 : 1;
  for (int64_t i = 1; i <= length && count > 0; ++i) {
    require(count < kMost / std::max<int64_t>(elements, 1), args, "more combinations than fit in memory");
    count = count * (elements - length + i) / i;
  }
  args.returns(new_contiguous(self, c10::IntArrayRef{count, length}));
}

at::ScalarType floating(at::ScalarType type) {
  return at::isIntegralType(type, /*includeBool=*/true) ? c10::get_default_dtype_as_scalartype() : type;
}

/// A matrix of symbolic sizes, without weights.
bool is_symbolic_matrix(const Args& args) {
  if (!is_symbolic(args.tensor(0)) || args.tensor(0).dim() != 2) return false;
  return args.count() == 1 || (args.is_none(2) && args.is_none(3));
}

/// `cov(self, correction, fweights, aweights)` and `corrcoef(self)`: a number for each two rows. One row gives a
/// number.
void covariances(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const c10::SymInt rows = self.sym_size(0);
  const Dims sizes = rows == 1 ? Dims{} : Dims{rows, rows};
  args.returns(make_contiguous(sizes, floating(self.scalar_type()), self.device()));
}

/// `(self, q, dim, keepdim, interpolation)`
void one_quantile(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const bool keeps = args.boolean(3);
  const auto kind = self.scalar_type();
  require((kind == at::kFloat || kind == at::kDouble) && self.dim() > 0, args, "not a tensor of floats");
  require(self.sym_numel() > 0, args, "no elements");
  Dims sizes;
  const int64_t dim = args.is_none(2) ? -1 : c10::maybe_wrap_dim(args.integer(2), self.dim());
  for (int64_t i = 0; i < self.dim(); ++i) {
    const bool is_reduced = dim < 0 || i == dim;
    if (!is_reduced || keeps) sizes.push_back(is_reduced ? c10::SymInt(1) : self.sym_size(i));
  }
  args.returns(new_contiguous(self, sizes));
}

bool has_symbolic_self(const Args& args) { return is_symbolic(args.tensor(0)); }

/// Composites call `equal` to check argument values: the answer is the one that the scope assumes. Outside of such a
/// scope the operator is refused.
void equal(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto answer = assumed_equality();
  if (!answer) refuse(op, "the value of a tensor is needed");
  Args(op, stack).returns(*answer);
}

constexpr Shape composite_shape(const CompositeAnswer& answer) {
  Shape shape;
  shape.composite = &answer;
  return shape;
}

template <bool assumed>
constexpr CompositeAnswer kAssumption{nullptr, nullptr, assumed};
/// The operator's own implementation runs on fakes; its checks get the answer that a valid call gives.
constexpr Shape assumes_true = composite_shape(kAssumption<true>);
constexpr Shape assumes_false = composite_shape(kAssumption<false>);

/// Where `applies` holds for the arguments, the shape function answers. Otherwise the composite runs on fakes, and its
/// checks of values count as true.
template <auto applies, Rule rule>
constexpr CompositeAnswer kAnswerOrAssumption{applies, rule, true, nullptr, &kAssumption<true>};
template <auto applies, Rule rule>
constexpr Shape composite_or_assumes_true = composite_shape(kAnswerOrAssumption<applies, rule>);
constexpr Shape scalar_quantile = composite_or_assumes_true<has_symbolic_self, one_quantile>;

template <auto applies, Rule rule>
constexpr CompositeAnswer kAnswer{applies, rule, true};
/// The shape function answers where `applies` holds for the arguments.
template <auto applies, Rule rule>
constexpr Shape composite = composite_shape(kAnswer<applies, rule>);

const ShapeRow kCompositesRows[] = {
#include "core/ops/composites.def"
};

}  // namespace

void register_composites() { add_shapes(kCompositesRows); }

}  // namespace stator::fake
