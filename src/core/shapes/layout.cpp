#include "core/shapes/layout.h"

#include <algorithm>
#include <numeric>

namespace stator::shapes {
namespace {

/// Truths and products of which one operand may be null, because a number is too large.
class Truths {
 public:
  explicit Truths(ShapeEnv& env) : env_(env) {}
  Ex apply(Op op, Ex a, Ex b) const { return a != nullptr && b != nullptr ? env_.apply(op, a, b) : nullptr; }
  Ex number(int64_t value) const { return env_.constant(value); }

  /// Whether the dimensions, innermost first, lie in memory in this order without gaps.
  Ex dense_in(Exprs sizes, Exprs strides, std::span<const size_t> order) const {
    Ex truth = env_.constant(true), expected = number(1);
    for (size_t dim : order) {
      Ex fits = apply(Op::Or, apply(Op::Eq, sizes[dim], number(1)), apply(Op::Eq, strides[dim], expected));
      truth = apply(Op::And, truth, fits);
      expected = apply(Op::Mul, expected, sizes[dim]);
    }
    return truth;
  }

 private:
  ShapeEnv& env_;
};

std::vector<size_t> reversed(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

/// The channels, then the spatial dimensions from the last, then the batch.
std::vector<size_t> channels_last_order(size_t spatial) {
  std::vector<size_t> order = {1};
  for (size_t dim = spatial + 1; dim >= 2; --dim) order.push_back(dim);
  order.push_back(0);
  return order;
}

}  // namespace

Ex is_contiguous(ShapeEnv& env, Exprs sizes, Exprs strides) {
  const Truths truths(env);
  Ex is_empty = env.constant(false);
  for (Ex size : sizes) is_empty = truths.apply(Op::Or, is_empty, truths.apply(Op::Eq, size, truths.number(0)));
  return truths.apply(Op::Or, is_empty, truths.dense_in(sizes, strides, reversed(sizes.size())));
}

Ex is_channels_last_contiguous(ShapeEnv& env, Exprs sizes, Exprs strides, size_t spatial) {
  if (sizes.size() != spatial + 2) return env.constant(false);
  return Truths(env).dense_in(sizes, strides, channels_last_order(spatial));
}

Ex has_channels_last_strides(ShapeEnv& env, Exprs sizes, Exprs strides, size_t spatial) {
  if (sizes.size() != spatial + 2) return env.constant(false);
  const Truths truths(env);
  Ex truth = truths.apply(Op::Ne, strides[1], truths.number(0)), least = truths.number(0);
  for (size_t dim : channels_last_order(spatial)) {
    truth = truths.apply(Op::And, truth, truths.apply(Op::Ne, sizes[dim], truths.number(0)));
    truth = truths.apply(Op::And, truth, truths.apply(Op::Ge, strides[dim], least));
    // Equal strides of channels and batch: the layout is not told apart from the usual one.
    if (dim == 0) truth = truths.apply(Op::And, truth, truths.apply(Op::Ne, least, strides[1]));
    least = truths.apply(Op::Mul, strides[dim], truths.apply(Op::Max, sizes[dim], truths.number(1)));
  }
  return truth;
}

Ex is_non_overlapping_and_dense(ShapeEnv& env, Exprs sizes, Exprs strides) {
  const Truths truths(env);
  const std::vector<size_t> usual = reversed(sizes.size());
  Ex truth = truths.dense_in(sizes, strides, usual);
  if (truth != nullptr && env.known(truth) == true) return truth;
  auto has_hint = [](Ex expr) { return expr->hint && !expr->hint.is_float(); };
  if (!std::all_of(sizes.begin(), sizes.end(), has_hint) || !std::all_of(strides.begin(), strides.end(), has_hint))
    return nullptr;
  std::vector<size_t> order = usual;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool small = sizes[a]->hint.integer() < 2, other_small = sizes[b]->hint.integer() < 2;
    return small != other_small ? other_small : strides[a]->hint.integer() < strides[b]->hint.integer();
  });
  truth = truths.dense_in(sizes, strides, order);
  if (truth == nullptr || !truth->hint) return nullptr;
  if (truth->hint.truth()) return truth;
  // The tensor is not dense in this order of dimensions, but for other sizes it could be dense in another order. What
  // holds in every order: a dense tensor without overlap spans as many elements as it has.
  Ex count = truths.number(1), span = truths.number(1);
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    count = truths.apply(Op::Mul, count, sizes[dim]);
    Ex steps = truths.apply(Op::Sub, sizes[dim], truths.number(1));
    span = truths.apply(Op::Add, span, truths.apply(Op::Mul, steps, strides[dim]));
  }
  if (Ex spans = truths.apply(Op::Eq, span, count); spans != nullptr && spans->hint && !spans->hint.truth())
    return spans;
  // It overlaps: the answer holds for these sizes alone.
  for (Exprs numbers : {sizes, strides})
    for (Ex number : numbers)
      if (!env.specialize(number)) return nullptr;
  return env.constant(false);
}

}  // namespace stator::shapes
