#include "core/passes/functionalization/regions.h"

namespace stator::passes {

/// Whether new contents must have the strides of the view.
static bool needs_layout(const View& view) { return view.parent == nullptr || reinterprets_memory(view.recipe); }

View* Regions::add_root(const at::Tensor& content) {
  Region& region = regions_.emplace_back();
  region.root = &views_.emplace_back(View{&region, nullptr, {}, Geometry::of(content), content, 0});
  return region.root;
}

View* Regions::add_view(View* parent, ViewRecipe recipe, const at::Tensor& content) {
  return &views_.emplace_back(
      View{parent->region, parent, std::move(recipe), Geometry::of(content), content, parent->region->version});
}

at::Tensor Regions::read(View* view) {
  if (view->parent == nullptr || view->version == view->region->version) return view->current;
  view->current = apply_view(builder_, view->recipe, read(view->parent));
  TORCH_CHECK(view->geometry.same_layout(Geometry::of(view->current)),
              "a view that has another layout when made again");
  view->version = view->region->version;
  return view->current;
}

at::Tensor Regions::read_from(View* view, const at::Tensor& root) {
  if (view->parent == nullptr) return root;
  return apply_view(builder_, view->recipe, read_from(view->parent, root));
}

at::Tensor Regions::conform(View* view, at::Tensor content) {
  if (view->geometry.same_layout(Geometry::of(content))) return content;
  TORCH_CHECK(!content.unsafeGetTensorImpl()->has_symbolic_sizes_strides(),
              "a written tensor whose layout cannot be kept, because a size of it is a symbol or depends on data");
  const auto copy = operator_named("aten::copy");
  content = builder_.call(copy, {read(view), content});
  TORCH_CHECK(view->geometry.same_layout(Geometry::of(content)), "a written tensor whose layout cannot be kept");
  return content;
}

void Regions::write(View* view, at::Tensor content, const graph::Node& writer) {
  Region& region = *view->region;
  const uint64_t next = region.version + 1;
  std::vector<std::pair<View*, at::Tensor>> changed;
  for (View* at = view;;) {
    const bool overlaps = at->geometry.overlaps();
    if (!overlaps && needs_layout(*at)) content = conform(at, std::move(content));
    // A view that is not listed here stays out of date until `read` makes it again.
    if (!overlaps && at->geometry.same_layout(Geometry::of(content))) changed.emplace_back(at, content);
    if (at->parent == nullptr) {
      TORCH_CHECK(!overlaps, "a write to a tensor whose elements overlap in memory");
      break;
    }
    View* parent = at->parent;
    if (!parent->geometry.overlaps()) {
      content = apply_inverse(builder_, at->recipe, {parent->geometry, at->geometry, read(parent), content});
    } else {
      // Elements that share memory must change together: write to the nearest ancestor that has each of them once.
      while (parent->parent != nullptr && parent->geometry.overlaps()) parent = parent->parent;
      content = scatter_by_geometry(builder_, {parent->geometry, at->geometry, read(parent), content});
    }
    at = parent;
  }
  region.version = next;
  region.writer = &writer;
  for (auto& [at, made] : changed) {
    at->current = std::move(made);
    at->version = next;
  }
}

void Regions::replace_root(Region& region, at::Tensor content) {
  region.root->current = std::move(content);
  region.root->version = ++region.version;
}

}  // namespace stator::passes
