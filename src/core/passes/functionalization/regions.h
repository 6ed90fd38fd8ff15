#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "core/graph/graph.h"
#include "core/passes/functionalization/views.h"

namespace stator::passes {

struct View;

/// One piece of memory, which several tensors of the program may view. The root is a tensor with all of its elements.
/// `version` counts the writes.
struct Region {
  View* root = nullptr;
  uint64_t version = 0;
  std::optional<uint32_t> input;        // position of the input whose memory it is
  at::Tensor at_start;                  // of an input: the root before all writes
  const graph::Node* writer = nullptr;  // the latest
};

/// A tensor of the program: a view of its parent, or a root.
struct View {
  Region* region;
  View* parent = nullptr;
  ViewRecipe recipe;
  Geometry geometry;
  at::Tensor current;    // the contents at `version`
  uint64_t version = 0;  // of the region
};

/// Contents of regions, and of the views of them.
class Regions {
 public:
  explicit Regions(Builder& builder) : builder_(builder) {}

  View* add_root(const at::Tensor& content);
  View* add_view(View* parent, ViewRecipe recipe, const at::Tensor& content);
  /// The contents now; the view is made again if it is out of date.
  at::Tensor read(View* view);
  /// The view of another root tensor.
  at::Tensor read_from(View* view, const at::Tensor& root);
  /// The view gets new contents; `writer` is the node that writes.
  void write(View* view, at::Tensor content, const graph::Node& writer);
  /// The root gets new contents of the same layout.
  void replace_root(Region& region, at::Tensor content);
  /// `content` in the layout of the view.
  at::Tensor conform(View* view, at::Tensor content);
  std::deque<Region>& all() { return regions_; }

 private:
  Builder& builder_;
  std::deque<Region> regions_;
  std::deque<View> views_;
};

}  // namespace stator::passes
