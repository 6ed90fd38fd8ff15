#include "core/fake/layout.h"

#include "core/fake/symbolic.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

bool always(const c10::SymBool& truth) { return shapes::known(truth).value_or(false); }

/// Whether `a`, which is positive, divides `b`, with a quotient of at least `least`.
bool always_divides(const c10::SymInt& a, const c10::SymInt& b, int64_t least) {
  return always(a.sym_gt(0)) && always((b % a).sym_eq(0)) && always((b / a).sym_ge(least));
}

/// The dimensions of a memory format, innermost first.
c10::ArrayRef<int64_t> dimension_order(at::MemoryFormat format) {
  static constexpr int64_t kPlane[] = {1, 3, 2, 0}, kSpace[] = {1, 4, 3, 2, 0};
  return format == at::MemoryFormat::ChannelsLast ? c10::ArrayRef<int64_t>(kPlane) : c10::ArrayRef<int64_t>(kSpace);
}

bool has_strides_of(const at::Tensor& tensor, const Dims& strides) {
  const auto own = tensor.sym_strides();
  for (size_t i = 0; i < strides.size(); ++i) {
    if (!always_equal(own[i], strides[i])) return false;
  }
  return true;
}

/// As c10::is_channels_last_strides_2d and _3d.
bool has_strides_like(const at::Tensor& tensor, at::MemoryFormat format) {
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  if (strides[1] == 0) return false;
  c10::SymInt least = 0;
  for (const int64_t dim : dimension_order(format)) {
    if (sizes[dim] == 0 || is_less(strides[dim], least)) return false;
    if (dim == 0 && least == strides[1]) return false;
    least = strides[dim];
    if (is_less(1, sizes[dim])) least = least * sizes[dim];
  }
  return true;
}

}  // namespace

bool always_equal(const c10::SymInt& a, const c10::SymInt& b) { return always(a.sym_eq(b)); }

bool is_less(const c10::SymInt& a, const c10::SymInt& b) {
  if (const auto answer = shapes::known(a.sym_lt(b))) return *answer;
  if (always_divides(a, b, 2)) return true;
  if (always_divides(b, a, 1)) return false;
  return a < b;
}

at::MemoryFormat suggested_format(const at::Tensor& tensor) {
  if (!is_symbolic(tensor)) return tensor.suggest_memory_format();
  if (tensor.dim() != 4 && tensor.dim() != 5) return at::MemoryFormat::Contiguous;
  // The strides of a new row-major tensor never look like those of another format.
  if (has_strides_of(tensor, contiguous_strides(tensor.sym_sizes()))) return at::MemoryFormat::Contiguous;
  const auto format = tensor.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  return has_strides_like(tensor, format) ? format : at::MemoryFormat::Contiguous;
}

bool is_laid_out(const at::Tensor& tensor, at::MemoryFormat format) {
  if (!is_symbolic(tensor)) return tensor.is_contiguous(format);
  const int64_t rank = tensor.dim();
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  const bool is_plain = format == at::MemoryFormat::Contiguous;
  const auto order = dimension_order(format);
  if (!is_plain && rank != static_cast<int64_t>(order.size())) return false;
  c10::SymInt expected = 1;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t dim = is_plain ? rank - 1 - i : order[i];
    if (sizes[dim] == 1) continue;
    if (is_plain && sizes[dim] == 0) return true;
    if (strides[dim] != expected) return false;
    expected = expected * sizes[dim];
  }
  return true;
}

bool is_always_dense(const at::Tensor& tensor) {
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  c10::SmallVector<size_t, 5> left;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (!always_equal(sizes[i], 1)) left.push_back(i);
  }
  c10::SymInt expected = 1;
  while (!left.empty()) {
    const auto next =
        std::find_if(left.begin(), left.end(), [&](size_t dim) { return always_equal(strides[dim], expected); });
    if (next == left.end()) return false;
    expected = expected * sizes[*next];
    left.erase(next);
  }
  return true;
}

}  // namespace stator::fake
