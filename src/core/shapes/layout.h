#pragma once

#include <span>

#include "core/shapes/env.h"

/// Torch's questions about layouts, as truths over sizes and strides.
namespace stator::shapes {

using Exprs = std::span<const Ex>;

Ex is_contiguous(ShapeEnv& env, Exprs sizes, Exprs strides);
/// For tensors with `spatial` + 2 dimensions; false for others.
Ex is_channels_last_contiguous(ShapeEnv& env, Exprs sizes, Exprs strides, size_t spatial);
Ex has_channels_last_strides(ShapeEnv& env, Exprs sizes, Exprs strides, size_t spatial);
/// Null if the order of the strides depends on data.
Ex is_non_overlapping_and_dense(ShapeEnv& env, Exprs sizes, Exprs strides);

}  // namespace stator::shapes
