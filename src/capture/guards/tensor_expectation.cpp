#include "capture/guards/tensor_expectation.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <sstream>

#include "capture/guards/array_layout.h"
#include "core/graph/literals.h"

namespace stator::capture {
namespace {

struct Facts {
  PyTypeObject* type;  // torch.Tensor or torch.nn.Parameter: never dies
  uint64_t keys;
  caffe2::TypeMeta dtype;
  c10::Device device = c10::kCPU;
  bool requires_grad;
  uint32_t dim;
};

/// As TensorImpl::requires_grad, but inlined: it is called for each parameter in each call.
[[gnu::always_inline]] inline bool requires_grad(const c10::TensorImpl* impl) {
  auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl->autograd_meta());
  if (!meta) return false;
  // A view also requires grad if its base does, since an in-place write.
  return meta->requires_grad_ || static_cast<bool>(meta->grad_fn_) ||
         (__builtin_expect(meta->is_view_, 0) && meta->requires_grad());
}

/// In a shape: any size, which the guards on sizes check.
constexpr int64_t kSymbolic = -1;
/// In a shape: the stride is the size times the stride of dimension `dim`. Tensors have no negative strides.
constexpr int64_t product_at(int64_t dim) { return -1 - dim; }
/// In a shape: any stride, which the guards on sizes check.
constexpr int64_t kSymbolicStride = INT64_MIN;

/// `shape`: sizes, then strides.
inline bool facts_hold(const Facts& facts, const int64_t* shape, PyObject* object) {
  if (Py_TYPE(object) != facts.type) return false;
  c10::TensorImpl* impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
  if (impl->key_set().raw_repr() != facts.keys || impl->dtype() != facts.dtype || impl->device() != facts.device ||
      requires_grad(impl) != facts.requires_grad)
    return false;
  // Equal class and dispatch keys imply that sizes and strides are stored in the same way.
  const auto& layout = impl->sizes_and_strides();
  if (layout.size() != facts.dim) return false;
  const int64_t *sizes = layout.sizes_data(), *strides = layout.strides_data();
  for (uint32_t i = 0; i < facts.dim; ++i) {
    if (sizes[i] != shape[i] && shape[i] != kSymbolic) return false;
    const int64_t stride = shape[facts.dim + i];
    if (strides[i] == stride) continue;
    if (stride >= 0) return false;
    if (stride == kSymbolicStride) continue;
    const int64_t inner = product_at(stride);
    if (int64_t product; __builtin_mul_overflow(sizes[inner], strides[inner], &product) || strides[i] != product)
      return false;
  }
  return true;
}

class Expectation final : public TensorExpectation {
 public:
  explicit Expectation(PyObject* object, const shapes::InputLayout& layout) {
    const at::Tensor& tensor = THPVariable_Unpack(object);
    facts_.type = Py_TYPE(object);
    facts_.keys = tensor.key_set().raw_repr();
    facts_.dtype = tensor.dtype();
    facts_.device = tensor.device();
    facts_.requires_grad = tensor.requires_grad();
    facts_.dim = static_cast<uint32_t>(tensor.dim());
    shape_.reserve(2 * facts_.dim);
    shape_.insert(shape_.end(), tensor.sizes().begin(), tensor.sizes().end());
    shape_.insert(shape_.end(), tensor.strides().begin(), tensor.strides().end());
    for (uint32_t i = 0; i < layout.sizes.size(); ++i) {
      if (layout.sizes[i]) shape_[i] = kSymbolic;
      if (layout.strides[i] >= 0) shape_[facts_.dim + i] = product_at(layout.strides[i]);
      if (layout.strides[i] == shapes::InputLayout::kOwnSymbol) shape_[facts_.dim + i] = kSymbolicStride;
    }
  }

  bool matches(PyObject* object) const override { return facts_hold(facts_, shape_.data(), object); }
  const Facts& facts() const { return facts_; }
  const std::vector<int64_t>& shape() const { return shape_; }

  std::string mismatch(PyObject* object) const override {
    std::ostringstream out;
    if (Py_TYPE(object) != facts_.type) {
      out << "expected a " << facts_.type->tp_name << ", saw a " << Py_TYPE(object)->tp_name;
      return out.str();
    }
    const at::Tensor& tensor = THPVariable_Unpack(object);
    if (tensor.dtype() != facts_.dtype)
      out << "dtype: expected " << dtype() << ", saw " << graph::dtype_name(tensor.scalar_type());
    else if (tensor.device() != facts_.device)
      out << "device: expected " << facts_.device << ", saw " << tensor.device();
    else if (tensor.dim() != static_cast<int64_t>(facts_.dim))
      out << "rank: expected " << facts_.dim << ", saw " << tensor.dim();
    else if (other_sizes(object) != 0)
      out << "size: expected " << sizes() << ", saw " << tensor.sizes();
    else if (!has_strides(tensor))
      out << "stride: expected " << strides() << ", saw " << tensor.strides();
    else if (tensor.requires_grad() != facts_.requires_grad)
      out << (facts_.requires_grad ? "requires_grad: expected True, saw False"
                                   : "requires_grad: expected False, saw True");
    else
      out << "dispatch keys: expected " << c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, facts_.keys))
          << ", saw " << c10::toString(tensor.key_set());
    return out.str();
  }

  std::string describe() const override {
    std::ostringstream out;
    out << facts_.type->tp_name << ' ' << dtype() << sizes() << " strides " << strides() << " on " << facts_.device
        << (facts_.requires_grad ? " requires_grad" : "");
    return out.str();
  }

  int64_t size(int64_t dim) const override { return shape_[dim]; }
  bool is_parameter() const override { return facts_.type != reinterpret_cast<PyTypeObject*>(THPVariableClass); }

  bool differs_in_layout_only(PyObject* object) const override {
    if (Py_TYPE(object) != facts_.type) return false;
    const at::Tensor& tensor = THPVariable_Unpack(object);
    return tensor.key_set().raw_repr() == facts_.keys && tensor.dtype() == facts_.dtype &&
           tensor.device() == facts_.device && tensor.requires_grad() == facts_.requires_grad &&
           tensor.dim() == static_cast<int64_t>(facts_.dim);
  }

  uint64_t other_sizes(PyObject* object) const override {
    if (!differs_in_layout_only(object)) return 0;
    const at::Tensor& tensor = THPVariable_Unpack(object);
    uint64_t other = 0;
    for (uint32_t i = 0; i < facts_.dim && i < 64; ++i)
      if (shape_[i] != kSymbolic && tensor.size(i) != shape_[i]) other |= uint64_t{1} << i;
    return other;
  }

  uint64_t other_strides(PyObject* object, uint64_t symbolic) const override {
    if (!differs_in_layout_only(object)) return 0;
    const at::Tensor& tensor = THPVariable_Unpack(object);
    uint64_t differing = 0, other = 0;
    for (uint32_t i = 0; i < facts_.dim && i < 64; ++i) {
      if (shape_[i] == kSymbolic) symbolic |= uint64_t{1} << i;
      if (!has_stride(tensor, i)) differing |= uint64_t{1} << i;
    }
    if (differing == 0) return 0;
    const shapes::InputLayout layout = layout_of(object, symbolic, differing);
    for (uint32_t i = 0; i < facts_.dim && i < 64; ++i)
      if (layout.strides[i] == shapes::InputLayout::kOwnSymbol) other |= uint64_t{1} << i;
    return other;
  }

  int64_t stride(int64_t dim) const override {
    const int64_t stride = shape_[facts_.dim + dim];
    return stride >= 0 ? stride : -1;
  }

 private:
  bool has_stride(const at::Tensor& tensor, uint32_t dim) const {
    const int64_t stride = shape_[facts_.dim + dim];
    if (stride >= 0) return tensor.stride(dim) == stride;
    if (stride == kSymbolicStride) return true;
    const int64_t inner = product_at(stride);
    return tensor.stride(dim) == tensor.size(inner) * tensor.stride(inner);
  }
  std::string dtype() const { return graph::dtype_name(at::typeMetaToScalarType(facts_.dtype)); }
  bool has_strides(const at::Tensor& tensor) const {
    for (uint32_t i = 0; i < facts_.dim; ++i)
      if (!has_stride(tensor, i)) return false;
    return true;
  }

  /// A symbolic size or stride reads `*`, and a stride that follows a product `size(i)*stride(i)`.
  std::string sizes() const {
    return listed(0, [](int64_t) { return std::string("*"); });
  }
  std::string strides() const {
    return listed(facts_.dim, [](int64_t stride) {
      if (stride == kSymbolicStride) return std::string("*");
      const std::string inner = std::to_string(product_at(stride));
      return "size(" + inner + ")*stride(" + inner + ")";
    });
  }
  template <class F>
  std::string listed(uint32_t first, const F& show_symbolic) const {
    std::string text = "[";
    for (uint32_t i = 0; i < facts_.dim; ++i) {
      const int64_t number = shape_[first + i];
      text += (i != 0 ? ", " : "") + (number >= 0 ? std::to_string(number) : show_symbolic(number));
    }
    return text + "]";
  }

  Facts facts_;
  std::vector<int64_t> shape_;  // sizes, then strides
};

}  // namespace

struct TensorRow::Packed {
  struct Item {
    Facts facts;
    int32_t slot;
    uint32_t shape;  // index of its first size in `shapes`
  };
  std::vector<Item> items;
  std::vector<int64_t> shapes;
};

TensorRow::TensorRow() : packed_(std::make_unique<Packed>()) {}
TensorRow::~TensorRow() = default;

void TensorRow::clear() {
  packed_->items.clear();
  packed_->shapes.clear();
}

void TensorRow::add(int32_t slot, const TensorExpectation& expectation) {
  auto& from = static_cast<const Expectation&>(expectation);
  auto& shapes = packed_->shapes;
  packed_->items.push_back({from.facts(), slot, static_cast<uint32_t>(shapes.size())});
  shapes.insert(shapes.end(), from.shape().begin(), from.shape().end());
}

bool TensorRow::matches(PyObject* const* slots) const {
  const int64_t* shapes = packed_->shapes.data();
  for (const Packed::Item& item : packed_->items)
    if (!facts_hold(item.facts, shapes + item.shape, slots[item.slot])) return false;
  return true;
}

std::shared_ptr<const TensorExpectation> TensorExpectation::of(PyObject* tensor, const shapes::InputLayout& layout) {
  return std::make_shared<Expectation>(tensor, layout);
}

shapes::InputLayout layout_of(PyObject* object, uint64_t symbolic, uint64_t open) {
  if (symbolic == 0 && open == 0) return {};
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return shapes::layout_of(tensor.sizes(), tensor.strides(), symbolic, open);
}

int64_t size_of(PyObject* tensor, int64_t dim) { return THPVariable_Unpack(tensor).size(dim); }
int64_t stride_of(PyObject* tensor, int64_t dim) { return THPVariable_Unpack(tensor).stride(dim); }
int64_t dim_of(PyObject* tensor) { return THPVariable_Unpack(tensor).dim(); }

int64_t storage_offset_of(PyObject* tensor) {
  const bool is_tensor = PyObject_TypeCheck(tensor, reinterpret_cast<PyTypeObject*>(THPVariableClass));
  return is_tensor ? THPVariable_Unpack(tensor).storage_offset() : -1;
}

MemoryRange memory_of(PyObject* object) {
  if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass))) return array_memory(object);
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.has_storage()) return {};
  const auto begin = reinterpret_cast<uintptr_t>(tensor.storage().data());
  const auto offset = static_cast<uintptr_t>(tensor.storage_offset()) * tensor.itemsize();
  return {begin, begin + tensor.storage().nbytes(), begin + offset, tensor.storage().unsafeGetStorageImpl()};
}

bool is_leaf_tensor(PyObject* tensor) {
  // Not `is_leaf`, which does not notice that the base of a view was written to since.
  return !THPVariable_Unpack(tensor).grad_fn();
}

bool is_view_tensor(PyObject* tensor) { return THPVariable_Unpack(tensor).is_view(); }

std::optional<int64_t> int_item(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.is_cpu() || tensor.layout() != at::kStrided || tensor.numel() != 1 || !tensor.has_storage()) return {};
  switch (tensor.scalar_type()) {
    case at::kLong:
      return *tensor.const_data_ptr<int64_t>();
    case at::kInt:
      return *tensor.const_data_ptr<int32_t>();
    case at::kBool:
      return *tensor.const_data_ptr<bool>();
    default:
      return {};
  }
}

template <class Number>
static Ref items_of(const at::Tensor& tensor) {
  Ref items = Ref::steal(PyTuple_New(tensor.numel()));
  const Number* element = tensor.const_data_ptr<Number>();
  for (int64_t i = 0; i < tensor.numel(); ++i)
    PyTuple_SET_ITEM(items.get(), i, PyLong_FromLongLong(element[i * tensor.stride(0)]));
  return items;
}

Ref int_items(PyObject* object) {
  constexpr int64_t kMost = 64;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.is_cpu() || tensor.layout() != at::kStrided || !tensor.has_storage() || tensor.dim() != 1 ||
      tensor.numel() > kMost || tensor.is_neg())
    return {};
  if (tensor.scalar_type() == at::kLong) return items_of<int64_t>(tensor);
  if (tensor.scalar_type() == at::kInt) return items_of<int32_t>(tensor);
  return {};
}

PyObject* gradient_of(PyObject* tensor) {
  const at::Tensor& gradient = THPVariable_Unpack(tensor).grad();
  if (!gradient.defined()) return nullptr;
  // The Python object of a tensor lives as long as the tensor, so a borrowed reference is safe.
  return Ref::steal(THPVariable_Wrap(gradient)).get();
}

}  // namespace stator::capture
