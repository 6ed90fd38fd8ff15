#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include <optional>
#include <vector>

#include "core/passes/builder.h"

namespace stator::passes {

/// Where the elements of a tensor lie in its memory.
struct Geometry {
  c10::SymDimVector sizes, strides;
  c10::SymInt offset;
  c10::DispatchKeySet bits;  // conjugate, negative
  at::ScalarType dtype = at::kFloat;

  static Geometry of(const at::Tensor& tensor);
  /// Equal but for the offset.
  bool same_layout(const Geometry& other) const;
  /// Whether two elements may lie at one place.
  bool overlaps() const;
};

/// How a view is made of its parent: one operator with one tensor among its arguments, or by geometry.
struct ViewRecipe {
  std::optional<c10::OperatorHandle> op;  // none: the parent itself
  std::vector<c10::IValue> args;
  size_t self = 0;                    // the index of the parent in `args`
  std::optional<c10::SymInt> offset;  // only by geometry: the view's offset minus the parent's
};

/// Whether the view reinterprets its parent's bytes as another dtype (`view.dtype`, `view_as_real`). Writing it back
/// then needs the new contents in the view's own layout.
bool reinterprets_memory(const ViewRecipe& recipe);

/// The recipe of a view that the geometries alone give.
ViewRecipe by_geometry(const Geometry& parent, const Geometry& view);

/// The view, made of a parent with other contents.
at::Tensor apply_view(Builder& builder, const ViewRecipe& recipe, const at::Tensor& parent);

/// A write of `content` through a view. `origin` and `view` are the geometries of the parent and of the view; `parent`
/// is the parent before the write, with the layout of `origin` but perhaps at another offset.
struct Write {
  const Geometry &origin, &view;
  const at::Tensor& parent;
  at::Tensor content;
};
/// The parent after the write, made by the inverse of the view's operator if there is one. No two elements of the
/// parent may share memory.
at::Tensor apply_inverse(Builder& builder, const ViewRecipe& recipe, const Write& write);
/// The same by geometry alone (`as_strided_scatter`).
at::Tensor scatter_by_geometry(Builder& builder, const Write& write);

}  // namespace stator::passes
