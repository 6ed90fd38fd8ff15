#pragma once

#include "core/fake/rule.h"

namespace stator::fake {

/// The sizes of a view with one size of -1 replaced, for symbolic sizes. Throws if the number of elements differs; if
/// that depends on data, the run raises.
Dims view_sizes(const at::Tensor& self, const std::vector<c10::SymInt>& shape);
/// The strides of a view with these sizes, which have as many elements. None if there is no such view.
std::optional<Dims> view_strides(const at::Tensor& self, const Dims& sizes);

}  // namespace stator::fake
