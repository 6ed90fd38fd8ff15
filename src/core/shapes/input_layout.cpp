#include "core/shapes/input_layout.h"

#include <algorithm>
#include <numeric>

namespace stator::shapes {

bool InputLayout::is_static() const {
  return std::find(sizes.begin(), sizes.end(), true) == sizes.end() &&
         std::find(strides.begin(), strides.end(), kOwnSymbol) == strides.end();
}

InputLayout layout_of(std::span<const int64_t> sizes, std::span<const int64_t> strides, uint64_t symbolic,
                      uint64_t open) {
  const size_t dims = sizes.size();
  InputLayout layout{std::vector<bool>(dims), std::vector<int8_t>(dims, InputLayout::kConstant), {}, {}};
  for (size_t i = 0; i < dims && i < 64; ++i) layout.sizes[i] = (symbolic >> i & 1) != 0;
  // From the innermost dimension outwards; of equal strides, the last dimension is the inner one.
  std::vector<size_t> order(dims);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  for (size_t place = 0; place < dims; ++place) {
    const size_t outer = order[place];
    bool is_product = false;
    for (size_t before = place; before-- > 0;) {
      const size_t inner = order[before];
      if (strides[outer] == 0 || strides[outer] != sizes[inner] * strides[inner]) continue;
      is_product = true;
      if (layout.sizes[inner] || layout.strides[inner] != InputLayout::kConstant)
        layout.strides[outer] = static_cast<int8_t>(inner);
      break;
    }
    const bool is_open = outer < 64 && (open >> outer & 1) != 0;
    if (is_open && !is_product && strides[outer] > 1) layout.strides[outer] = InputLayout::kOwnSymbol;
  }
  return layout;
}

}  // namespace stator::shapes
