#include "core/fake/iterator.h"

#include <ATen/native/TypeProperties.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <numeric>

#include "core/fake/layout.h"
#include "core/fake/symbolic.h"
#include "core/shapes/current.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {

namespace {

// Templates for concrete (int64_t) and symbolic (c10::SymInt) sizes.
template <class Int>
using Vector = c10::SmallVector<Int, c10::kDimVectorStaticSize>;

template <class Int>
c10::ArrayRef<Int> sizes_of(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return tensor.sizes();
  } else {
    return tensor.sym_sizes();
  }
}

template <class Int>
c10::ArrayRef<Int> strides_of(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return tensor.strides();
  } else {
    return tensor.sym_strides();
  }
}

bool any_symbolic(const Inputs& inputs) {
  for (const auto* input : inputs) {
    if (input->unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return true;
  }
  return false;
}

template <class Int>
struct Geometry {
  Vector<Int> sizes;
  Vector<Int> strides;
  bool same_shape = true;
};

bool same(int64_t a, int64_t b) { return a == b; }
/// Whether they are equal for all values of the symbols.
bool same(const c10::SymInt& a, const c10::SymInt& b) { return shapes::known(a.sym_eq(b)).value_or(false); }

bool is_open(int64_t) { return false; }
/// Whether it depends on data.
bool is_open(const c10::SymInt& number) { return number.is_heap_allocated() && shapes::depends_on_data({number}); }

bool counts_as_zero(int64_t number) { return number == 0; }
/// A size that depends on data counts as one of two or more, here and in `less`. In a run in which it is not, strides
/// may differ from those of the fake, but only those of dimensions of size one, or of tensors without elements.
bool counts_as_zero(const c10::SymInt& number) { return is_open(number) ? same(number, 0) : number == 0; }

bool divides(const c10::SymInt& a, const c10::SymInt& b) {
  return !same(a, 0) && shapes::known((b % a).sym_eq(0)).value_or(false);
}

bool less(int64_t a, int64_t b) { return a < b; }
bool less(const c10::SymInt& a, const c10::SymInt& b) {
  if (!is_open(a) && !is_open(b)) return is_less(a, b);
  if (const auto answer = shapes::known(a.sym_lt(b))) return *answer;
  if (same(a, b) || divides(b, a)) return false;
  return divides(a, b) || is_less(a, b);
}

bool check_same(int64_t, int64_t) { return false; }
/// For two sizes that depend on data, in a trace that has nodes for checks: from here on they are equal.
bool check_same(const c10::SymInt& a, const c10::SymInt& b) {
  if (!is_open(a) || !is_open(b) || shapes::AssertSink::current() == nullptr) return false;
  return a.sym_eq(b).expect_true("broadcast", 0);
}

template <class Int>
bool all_same(c10::ArrayRef<Int> a, c10::ArrayRef<Int> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) { return same(x, y); });
}

template <class Int>
void broadcast_into(Vector<Int>& sizes, c10::ArrayRef<Int> other) {
  if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), Int(1));
  const size_t shift = sizes.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    Int& size = sizes[shift + i];
    if (same(size, other[i])) continue;
    if (same(size, Int(1))) {
      size = other[i];
    } else if (check_same(size, other[i])) {
      continue;
    } else if (!same(other[i], Int(1)) && !(size == other[i])) {
      // Sizes that are one in this call only.
      if (size == Int(1)) {
        size = other[i];
        continue;
      }
      TORCH_CHECK(other[i] == Int(1), "The size of tensor a (", size, ") must match the size of tensor b (", other[i],
                  ") at non-singleton dimension ", shift + i);
    }
  }
}

template <class Int>
void compute_sizes(const Inputs& inputs, Geometry<Int>& geometry) {
  const auto first = sizes_of<Int>(*inputs[0]);
  geometry.sizes.assign(first.begin(), first.end());
  for (size_t i = 1; i < inputs.size(); ++i) {
    const auto sizes = sizes_of<Int>(*inputs[i]);
    if (all_same(sizes, c10::ArrayRef<Int>(geometry.sizes))) continue;
    geometry.same_shape = false;
    broadcast_into<Int>(geometry.sizes, sizes);
  }
}

/// The order of dimensions in memory, innermost first, as TensorIterator chooses it: the first operand with different
/// strides in two dimensions decides which of them is inner. Broadcast dimensions do not count.
template <class Int>
class DimensionOrder {
 public:
  DimensionOrder(const Inputs& inputs, const Vector<Int>& sizes) : sizes_(sizes) {
    for (const auto* input : inputs) add_strides(*input);
    const int64_t rank = static_cast<int64_t>(sizes.size());
    order_.resize(rank);
    for (int64_t i = 0; i < rank; ++i) order_[i] = rank - 1 - i;
    for (int64_t i = 1; i < rank; ++i) {
      int64_t moving = i;
      for (int64_t below = i - 1; below >= 0; --below) {
        const int decision = compare(order_[below], order_[moving]);
        if (decision < 0) break;
        if (decision == 0) continue;
        std::swap(order_[below], order_[moving]);
        moving = below;
      }
    }
  }

  bool is_row_major() const {
    const int64_t rank = static_cast<int64_t>(order_.size());
    for (int64_t i = 0; i < rank; ++i) {
      if (order_[i] != rank - 1 - i) return false;
    }
    return true;
  }

  Vector<Int> dense_strides() const {
    Vector<Int> strides(order_.size(), Int(0));
    Int next(1);
    for (const int64_t dim : order_) {
      strides[dim] = next;
      next = next * sizes_[dim];
    }
    return strides;
  }

 private:
  void add_strides(const at::Tensor& input) {
    const auto sizes = sizes_of<Int>(input);
    const auto strides = strides_of<Int>(input);
    const size_t shift = sizes_.size() - sizes.size();
    Vector<Int> broadcast(sizes_.size(), Int(0));
    for (size_t i = 0; i < sizes.size(); ++i) {
      // A dimension of size one that is broadcast has no stride.
      if (same(sizes[i], sizes_[shift + i]) || !(sizes[i] == Int(1))) broadcast[shift + i] = strides[i];
    }
    strides_.push_back(std::move(broadcast));
  }

  /// Positive if `outer` has to change places with `inner`, negative if the order is right, 0 if no operand decides.
  int compare(int64_t outer, int64_t inner) const {
    for (const auto& strides : strides_) {
      const Int& left = strides[outer];
      const Int& right = strides[inner];
      if (counts_as_zero(left) || counts_as_zero(right)) continue;
      if (less(left, right)) return -1;
      if (less(right, left)) return 1;
      if (!is_open(sizes_[inner]) && !is_open(sizes_[outer]) && less(sizes_[inner], sizes_[outer])) return 1;
    }
    return 0;
  }

  const Vector<Int>& sizes_;
  c10::SmallVector<Vector<Int>, 4> strides_;
  Vector<int64_t> order_;
};

template <class Int>
Vector<Int> row_major(const Vector<Int>& sizes) {
  const auto strides = contiguous_strides(c10::ArrayRef<Int>(sizes));
  return Vector<Int>(strides.begin(), strides.end());
}

enum class SameShape { RowMajor, ChannelsLast, AsFirst, Mixed };

/// If all operands have the same shape and the same dense layout, the result has that layout.
template <class Int>
SameShape same_shape_layout(const Inputs& inputs) {
  bool row_major = true, channels_last = true, dense = true;
  for (const auto* input : inputs) {
    row_major = row_major && input->is_contiguous();
    channels_last = channels_last && input->is_contiguous(at::MemoryFormat::ChannelsLast);
    dense = dense && input->is_non_overlapping_and_dense();
  }
  if (row_major) return SameShape::RowMajor;
  if (channels_last) return SameShape::ChannelsLast;
  if (!dense) return SameShape::Mixed;
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (!(strides_of<Int>(*inputs[i]) == strides_of<Int>(*inputs[0]))) return SameShape::Mixed;
  }
  return SameShape::AsFirst;
}

template <class Int>
Geometry<Int> compute(const Inputs& inputs) {
  Geometry<Int> geometry;
  compute_sizes(inputs, geometry);
  if (geometry.same_shape) {
    switch (same_shape_layout<Int>(inputs)) {
      case SameShape::RowMajor:
        geometry.strides = row_major(geometry.sizes);
        return geometry;
      case SameShape::ChannelsLast: {
        const Dims sizes(geometry.sizes.begin(), geometry.sizes.end());
        for (const auto& stride : format_strides(sizes, at::MemoryFormat::ChannelsLast)) {
          if constexpr (std::is_same_v<Int, int64_t>) {
            geometry.strides.push_back(stride.expect_int());
          } else {
            geometry.strides.push_back(stride);
          }
        }
        return geometry;
      }
      case SameShape::AsFirst: {
        const auto strides = strides_of<Int>(*inputs[0]);
        geometry.strides.assign(strides.begin(), strides.end());
        return geometry;
      }
      case SameShape::Mixed:
        break;
    }
  }
  const DimensionOrder<Int> order(inputs, geometry.sizes);
  geometry.strides = order.is_row_major() ? row_major(geometry.sizes) : order.dense_strides();
  return geometry;
}

/// The same for symbolic sizes, without the questions that distinguish operands of the same shape: the order of the
/// dimensions gives the same strides, except for dimensions of size one.
Geometry<c10::SymInt> symbolic_geometry(const Inputs& inputs) {
  Geometry<c10::SymInt> geometry;
  compute_sizes(inputs, geometry);
  // Row-major operands give a row-major result, whatever their sizes.
  if (std::all_of(inputs.begin(), inputs.end(), [](const auto* input) { return is_row_major(*input); })) {
    geometry.strides = row_major(geometry.sizes);
    return geometry;
  }
  const DimensionOrder<c10::SymInt> order(inputs, geometry.sizes);
  geometry.strides = order.is_row_major() ? row_major(geometry.sizes) : order.dense_strides();
  return geometry;
}

}  // namespace

at::ScalarType common_dtype(const Inputs& inputs, c10::ArrayRef<at::Scalar> scalars) {
  const at::ScalarType first = inputs[0]->scalar_type();
  bool differ = !scalars.empty();
  for (const auto* input : inputs) differ = differ || input->scalar_type() != first;
  if (!differ) return first;
  at::native::ResultTypeState state;
  for (const auto* input : inputs) state = at::native::update_result_type_state(*input, state);
  for (const auto& scalar : scalars) state = at::native::update_result_type_state(scalar, state);
  return at::native::result_type(state);
}

c10::Device common_device(const Inputs& inputs) {
  c10::Device device = inputs[0]->device();
  bool is_scalar = inputs[0]->dim() == 0 && device.is_cpu();
  for (size_t i = 1; i < inputs.size(); ++i) {
    const c10::Device other = inputs[i]->device();
    if (other == device) {
      is_scalar = is_scalar && inputs[i]->dim() == 0;
      continue;
    }
    if (inputs[i]->dim() == 0 && other.is_cpu()) continue;
    TORCH_CHECK(is_scalar, "Expected all tensors to be on the same device, but found at least two devices, ", device,
                " and ", other, "!");
    device = other;
    is_scalar = false;
  }
  return device;
}

at::Tensor iterate(const Inputs& inputs, at::ScalarType dtype, c10::Device device) {
  if (any_symbolic(inputs)) {
    const auto geometry = symbolic_geometry(inputs);
    return make_fake(geometry.sizes, geometry.strides, dtype, device);
  }
  const auto geometry = compute<int64_t>(inputs);
  return make_fake(geometry.sizes, geometry.strides, dtype, device);
}

void convert_inputs(Inputs& inputs, at::ScalarType computed, c10::SmallVector<at::Tensor, 4>& converted) {
  converted.reserve(inputs.size());  // `inputs` points into it
  for (auto& input : inputs) {
    if (input->scalar_type() == computed || !input->is_cpu()) continue;
    if (is_symbolic(*input) ? is_always_dense(*input) : input->is_non_overlapping_and_dense()) continue;
    converted.push_back(make_fake(input->sym_sizes(), like_strides(*input), computed, input->device()));
    input = &converted.back();
  }
}

void iterate_out(const at::Tensor& out, const Inputs& inputs) {
  const auto geometry = any_symbolic(inputs) ? symbolic_geometry(inputs) : compute<c10::SymInt>(inputs);
  resize_out(out, geometry.sizes, c10::SymIntArrayRef(geometry.strides));
}

void iterate_in_place(const at::Tensor& self, const Inputs& inputs) {
  if (inputs.size() == 1 && inputs[0] == &self) return;
  const Dims sizes = broadcast_sizes(inputs);
  TORCH_CHECK(all_same(self.sym_sizes(), c10::SymIntArrayRef(sizes)) || self.sym_sizes().equals(sizes),
              "output with shape ", self.sym_sizes(), " doesn't match the broadcast shape ",
              c10::SymIntArrayRef(sizes));
}

Dims dense_strides(const at::Tensor& tensor) {
  const auto sizes = tensor.sym_sizes();
  const Vector<c10::SymInt> copy(sizes.begin(), sizes.end());
  const auto strides = DimensionOrder<c10::SymInt>({&tensor}, copy).dense_strides();
  return Dims(strides.begin(), strides.end());
}

Dims broadcast_sizes(const Inputs& inputs) {
  Geometry<c10::SymInt> geometry;
  compute_sizes(inputs, geometry);
  return Dims(geometry.sizes.begin(), geometry.sizes.end());
}

}  // namespace stator::fake
