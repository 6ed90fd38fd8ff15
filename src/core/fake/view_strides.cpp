#include "core/fake/view_strides.h"

#include <algorithm>

#include "core/fake/layout.h"
#include "core/fake/symbolic.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

/// Whether it holds, or depends on data.
bool may_hold(const c10::SymBool& truth) { return truth.expect_true(__FILE__, __LINE__); }

bool differ(const c10::SymInt& a, const c10::SymInt& b) { return !always_equal(a, b) && a != b; }

}  // namespace

Dims view_sizes(const at::Tensor& self, const std::vector<c10::SymInt>& shape) {
  Dims sizes(shape.begin(), shape.end());
  c10::SymInt product = 1;
  std::optional<size_t> inferred;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].maybe_as_int() == -1) {
      TORCH_CHECK(!inferred, "only one dimension can be inferred");
      inferred = i;
    } else {
      sizes[i] = shapes::as_size(sizes[i]);
      product = product * sizes[i];
    }
  }
  const c10::SymInt count = self.sym_numel();
  const bool fits =
      inferred ? may_hold(product.sym_ne(0)) && may_hold((count % product).sym_eq(0)) : may_hold(count.sym_eq(product));
  TORCH_CHECK(fits, "shape '", c10::SymIntArrayRef(shape), "' is invalid for input of size ", count);
  if (inferred) sizes[*inferred] = shapes::as_size(shapes::quotient(count, product));
  return sizes;
}

std::optional<Dims> view_strides(const at::Tensor& self, const Dims& sizes) {
  // A row-major tensor can be viewed in every shape.
  if (is_row_major(self)) return contiguous_strides(sizes);
  // And so can one without elements.
  const auto old_sizes = self.sym_sizes(), old_strides = self.sym_strides();
  if (std::ranges::any_of(old_sizes, [](const c10::SymInt& size) { return always_equal(size, 0); })) {
    const bool is_same = std::ranges::equal(old_sizes, sizes, always_equal);
    return is_same ? Dims(old_strides.begin(), old_strides.end()) : contiguous_strides(sizes);
  }
  Dims strides(sizes.size(), c10::SymInt(1));
  size_t left = sizes.size();  // dimensions of the view without a stride
  c10::SymInt base = old_strides.back(), old_count = 1, count = 1;
  for (size_t i = old_sizes.size(); i-- > 0;) {
    old_count = old_count * old_sizes[i];
    const bool is_joined =
        i > 0 && (always_equal(old_sizes[i - 1], 1) || !differ(old_strides[i - 1], old_count * base));
    if (is_joined) continue;
    // The dimensions from here on that lie densely are split or joined as the view needs.
    while (left > 0 && (is_less(count, old_count) || always_equal(sizes[left - 1], 1))) {
      strides[--left] = count * base;
      count = count * sizes[left];
    }
    if (differ(count, old_count)) return std::nullopt;
    if (i == 0) break;
    base = old_strides[i - 1];
    old_count = 1;
    count = 1;
  }
  if (left > 0) return std::nullopt;
  return strides;
}

}  // namespace stator::fake
