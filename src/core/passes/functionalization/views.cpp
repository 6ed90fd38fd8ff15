#include "core/passes/functionalization/views.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "core/shapes/sym_node.h"

namespace stator::passes {
namespace {

using Args = std::vector<c10::IValue>;

constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

bool known_equal(const c10::SymInt& a, const c10::SymInt& b) { return shapes::known(a.sym_eq(b)).value_or(false); }

bool same_numbers(const c10::SymDimVector& a, const c10::SymDimVector& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), known_equal);
}

c10::IValue ints(const c10::SymDimVector& numbers) {
  const bool is_plain = std::none_of(numbers.begin(), numbers.end(), [](const auto& n) { return n.is_symbolic(); });
  if (!is_plain) return c10::SymIntArrayRef(numbers.data(), numbers.size());
  c10::List<int64_t> plain;
  for (const c10::SymInt& number : numbers) plain.push_back(number.guard_int(__FILE__, __LINE__));
  return plain;
}

at::Tensor call(Builder& builder, const char* op, Args args) {
  return builder.call(operator_named(op), std::move(args));
}

/// `content` reshaped to `sizes`: a view if its strides allow one, otherwise a copy.
at::Tensor reshaped(Builder& builder, const at::Tensor& content, const c10::SymDimVector& sizes) {
  try {
    return call(builder, "aten::view", {content, ints(sizes)});
  } catch (const c10::Error&) {
    // Its strides do not allow a view.
    const auto format = static_cast<int64_t>(at::MemoryFormat::Contiguous);
    return call(builder, "aten::view", {call(builder, "aten::clone", {content, format}), ints(sizes)});
  }
}

/// A complex tensor with its real (`part` 0) or imaginary (1) part replaced by `content`.
at::Tensor with_part(Builder& builder, const at::Tensor& parent, const at::Tensor& content, int64_t part) {
  if (!parent.is_complex()) return content;
  at::Tensor pairs = call(builder, "aten::view_as_real", {parent});
  return call(builder, "aten::view_as_complex",
              {call(builder, "aten::select_scatter", {pairs, content, int64_t{-1}, part})});
}

/// The contents of an expanded view without the expansion: the first element along each dimension that `expand` added
/// or stretched.
at::Tensor unexpanded(Builder& builder, const Geometry& parent, at::Tensor content) {
  while (content.dim() > static_cast<int64_t>(parent.sizes.size()))
    content = call(builder, "aten::select.int", {content, int64_t{0}, int64_t{0}});
  for (size_t dim = 0; dim < parent.sizes.size(); ++dim)
    if (!known_equal(parent.sizes[dim], content.sym_size(static_cast<int64_t>(dim))))
      content = call(builder, "aten::slice.Tensor", {content, static_cast<int64_t>(dim), int64_t{0}, int64_t{1}});
  return content;
}

using Inverse = at::Tensor (*)(Builder&, const ViewRecipe&, const at::Tensor& parent, const at::Tensor& content);

at::Tensor un_select(Builder& builder, const ViewRecipe& recipe, const at::Tensor& parent, const at::Tensor& content) {
  return call(builder, "aten::select_scatter", {parent, content, recipe.args[1], recipe.args[2]});
}
at::Tensor un_slice(Builder& builder, const ViewRecipe& recipe, const at::Tensor& parent, const at::Tensor& content) {
  return call(builder, "aten::slice_scatter",
              {parent, content, recipe.args[1], recipe.args[2], recipe.args[3], recipe.args[4]});
}
at::Tensor un_narrow(Builder& builder, const ViewRecipe& recipe, const at::Tensor& parent, const at::Tensor& content) {
  const int64_t dim = recipe.args[1].toInt();
  c10::SymInt start = recipe.args[2].toSymInt();
  if (start < 0) start = start + parent.sym_size(dim);
  const c10::IValue end(start + recipe.args[3].toSymInt());
  return call(builder, "aten::slice_scatter", {parent, content, dim, c10::IValue(start), end, int64_t{1}});
}
at::Tensor un_diagonal(Builder& builder, const ViewRecipe& recipe, const at::Tensor& parent,
                       const at::Tensor& content) {
  return call(builder, "aten::diagonal_scatter", {parent, content, recipe.args[1], recipe.args[2], recipe.args[3]});
}
/// The inverse of a view operator that is its own inverse (`t`, `transpose`): applies it again, with its arguments.
at::Tensor again(Builder& builder, const ViewRecipe& recipe, const at::Tensor&, const at::Tensor& content) {
  Args args = recipe.args;
  args[recipe.self] = content;
  return builder.call(*recipe.op, std::move(args));
}
at::Tensor un_permute(Builder& builder, const ViewRecipe& recipe, const at::Tensor& parent, const at::Tensor& content) {
  const auto dims = recipe.args[1].toIntVector();
  std::vector<int64_t> inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    inverse[static_cast<size_t>(dims[i] < 0 ? dims[i] + parent.dim() : dims[i])] = static_cast<int64_t>(i);
  return call(builder, "aten::permute", {content, inverse});
}
at::Tensor un_reshape(Builder& builder, const ViewRecipe&, const at::Tensor& parent, const at::Tensor& content) {
  return reshaped(builder, content, Geometry::of(parent).sizes);
}
at::Tensor un_expand(Builder& builder, const ViewRecipe&, const at::Tensor& parent, const at::Tensor& content) {
  return unexpanded(builder, Geometry::of(parent), content);
}
at::Tensor un_dtype(Builder& builder, const ViewRecipe&, const at::Tensor& parent, const at::Tensor& content) {
  return call(builder, "aten::view.dtype", {content, static_cast<int64_t>(parent.scalar_type())});
}
at::Tensor un_real_pairs(Builder& builder, const ViewRecipe&, const at::Tensor&, const at::Tensor& content) {
  return call(builder, "aten::view_as_complex", {content});
}
at::Tensor un_complex(Builder& builder, const ViewRecipe&, const at::Tensor&, const at::Tensor& content) {
  return call(builder, "aten::view_as_real", {content});
}
at::Tensor un_real(Builder& builder, const ViewRecipe&, const at::Tensor& parent, const at::Tensor& content) {
  return with_part(builder, parent, content, 0);
}
at::Tensor un_imag(Builder& builder, const ViewRecipe&, const at::Tensor& parent, const at::Tensor& content) {
  return with_part(builder, parent, content, 1);
}

const auto& kInverses = *new std::unordered_map<std::string_view, Inverse>{
#define STATOR_VIEW(op, inverse) {"aten::" op, inverse},
#include "core/passes/functionalization/views.def"
#undef STATOR_VIEW
};

Inverse find_inverse(const c10::OperatorName& name) {
  const std::string full = c10::toString(name);
  auto found = kInverses.find(full);
  return found != kInverses.end() ? found->second : nullptr;
}

}  // namespace

bool reinterprets_memory(const ViewRecipe& recipe) {
  const Inverse inverse = recipe.op ? find_inverse(recipe.op->operator_name()) : nullptr;
  return inverse == un_dtype || inverse == un_real_pairs || inverse == un_complex;
}

Geometry Geometry::of(const at::Tensor& tensor) {
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  return {{sizes.begin(), sizes.end()},
          {strides.begin(), strides.end()},
          tensor.sym_storage_offset(),
          tensor.key_set() & kLazyBits,
          tensor.scalar_type()};
}

bool Geometry::same_layout(const Geometry& other) const {
  return dtype == other.dtype && bits == other.bits && same_numbers(sizes, other.sizes) &&
         same_numbers(strides, other.strides);
}

bool Geometry::overlaps() const {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (known_equal(sizes[i], 1)) continue;
    if (known_equal(sizes[i], 0)) return false;
    if (known_equal(strides[i], 0)) return true;
    const auto stride = strides[i].maybe_as_int(), size = sizes[i].maybe_as_int();
    if (!stride || !size) return false;  // symbolic strides come from dense tensors
    dims.emplace_back(*stride, *size);
  }
  std::sort(dims.begin(), dims.end());
  for (size_t i = 1; i < dims.size(); ++i) {
    int64_t reach = 1;  // elements that the smaller dimensions span
    for (size_t k = 0; k < i; ++k) reach += dims[k].first * (dims[k].second - 1);
    if (dims[i].first < reach) return true;
  }
  return false;
}

ViewRecipe by_geometry(const Geometry& parent, const Geometry& view) {
  TORCH_CHECK(parent.dtype == view.dtype && parent.bits == view.bits,
              "a view of another dtype or conjugation, made by an operator that cannot be repeated");
  ViewRecipe recipe;
  recipe.op = operator_named("aten::as_strided");
  recipe.args = {c10::IValue(), ints(view.sizes), ints(view.strides), c10::IValue()};
  recipe.offset = view.offset - parent.offset;
  return recipe;
}

at::Tensor apply_view(Builder& builder, const ViewRecipe& recipe, const at::Tensor& parent) {
  if (!recipe.op) return parent;
  Args args = recipe.args;
  args[recipe.self] = parent;
  if (recipe.offset) args[3] = c10::IValue(parent.sym_storage_offset() + *recipe.offset);
  return builder.call(*recipe.op, std::move(args));
}

at::Tensor scatter_by_geometry(Builder& builder, const Write& write) {
  TORCH_CHECK(write.parent.scalar_type() == write.view.dtype,
              "a write through a view of another dtype that has no inverse");
  at::Tensor content = write.content;
  const auto flipped = (write.parent.key_set() & kLazyBits) ^ write.view.bits;
  if (flipped.has(c10::DispatchKey::Conjugate)) content = call(builder, "aten::_conj", {content});
  if (flipped.has(c10::DispatchKey::Negative)) content = call(builder, "aten::_neg_view", {content});
  Geometry target = write.view;
  for (size_t dim = target.sizes.size(); dim-- > 0;) {
    // All elements along the dimension share one place in memory. The write gave them one value: the first stands for
    // all.
    if (!known_equal(target.strides[dim], 0) || known_equal(target.sizes[dim], 0)) continue;
    content = call(builder, "aten::select.int", {content, static_cast<int64_t>(dim), int64_t{0}});
    target.sizes.erase(target.sizes.begin() + static_cast<ptrdiff_t>(dim));
    target.strides.erase(target.strides.begin() + static_cast<ptrdiff_t>(dim));
  }
  TORCH_CHECK(!target.overlaps(), "a write to a tensor whose elements overlap in memory");
  const c10::SymInt offset = write.parent.sym_storage_offset() + (write.view.offset - write.origin.offset);
  return call(builder, "aten::as_strided_scatter",
              {write.parent, content, ints(target.sizes), ints(target.strides), c10::IValue(offset)});
}

at::Tensor apply_inverse(Builder& builder, const ViewRecipe& recipe, const Write& write) {
  if (!recipe.op) return write.content;
  if (write.origin.same_layout(write.view) && known_equal(write.origin.offset, write.view.offset)) return write.content;
  if (!recipe.offset)
    if (Inverse inverse = find_inverse(recipe.op->operator_name()))
      return inverse(builder, recipe, write.parent, write.content);
  return scatter_by_geometry(builder, write);
}

}  // namespace stator::passes
