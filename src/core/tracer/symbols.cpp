#include "core/tracer/symbols.h"

#include <algorithm>

#include "core/shapes/sym_node.h"

namespace stator::tracer {

void Symbols::learn_sizes(graph::ValueId value, const at::Tensor& fake) {
  const auto sizes = fake.sym_sizes();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto expr = shapes::expression_of(sizes[i]);
    if (expr && !expr->is_constant()) sizes_.try_emplace(expr.get(), Size{value, static_cast<int64_t>(i)});
  }
}

void Symbols::learn_strides(graph::ValueId input, const at::Tensor& fake) {
  const auto strides = fake.sym_strides();
  for (size_t i = 0; i < strides.size(); ++i) {
    const auto expr = shapes::expression_of(strides[i]);
    if (expr && expr->op == shapes::Op::Symbol)
      sizes_.try_emplace(expr.get(), Size{input, static_cast<int64_t>(i), true});
  }
}

std::vector<shapes::Ex> Symbols::sizes_of(graph::ValueId tensor) const {
  std::vector<shapes::Ex> sizes;
  for (const auto& [expr, size] : sizes_)
    if (size.tensor == tensor) sizes.push_back(expr);
  // In an order that does not depend on addresses.
  std::sort(sizes.begin(), sizes.end(), [&](shapes::Ex a, shapes::Ex b) {
    const Size &x = sizes_.at(a), &y = sizes_.at(b);
    return std::pair(x.is_stride, x.dim) < std::pair(y.is_stride, y.dim);
  });
  return sizes;
}

graph::ValueId Symbols::find_number(shapes::Ex expr) const {
  auto found = numbers_.find(expr);
  return found == numbers_.end() ? graph::kNoValue : found->second;
}

Symbols::Size Symbols::find_size(shapes::Ex expr) const {
  auto found = sizes_.find(expr);
  return found == sizes_.end() ? Size{} : found->second;
}

}  // namespace stator::tracer
