#include "capture/guards/tensor_expectation.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <sstream>

namespace stator::capture {
namespace {

class Expectation final : public TensorExpectation {
 public:
  explicit Expectation(PyObject* object) : type_(Py_TYPE(object)) {
    const at::Tensor& tensor = THPVariable_Unpack(object);
    keys_ = tensor.key_set().raw_repr();
    dtype_ = tensor.dtype();
    device_ = tensor.device();
    requires_grad_ = tensor.requires_grad();
    dim_ = tensor.dim();
    shape_.reserve(2 * dim_);
    shape_.insert(shape_.end(), tensor.sizes().begin(), tensor.sizes().end());
    shape_.insert(shape_.end(), tensor.strides().begin(), tensor.strides().end());
  }

  bool matches(PyObject* object) const override {
    if (Py_TYPE(object) != type_) return false;
    const c10::TensorImpl* impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
    if (impl->key_set().raw_repr() != keys_ || impl->dtype() != dtype_ || impl->requires_grad() != requires_grad_)
      return false;
    if (impl->dim() != dim_ || impl->device() != device_) return false;
    const int64_t* sizes = impl->sizes().data();
    const int64_t* strides = impl->strides().data();
    for (int64_t i = 0; i < dim_; ++i)
      if (sizes[i] != shape_[i] || strides[i] != shape_[dim_ + i]) return false;
    return true;
  }

  std::string mismatch(PyObject* object) const override {
    std::ostringstream out;
    if (Py_TYPE(object) != type_) {
      out << "expected a " << type_->tp_name << ", saw a " << Py_TYPE(object)->tp_name;
      return out.str();
    }
    const at::Tensor& tensor = THPVariable_Unpack(object);
    if (tensor.dtype() != dtype_)
      out << "dtype: expected " << at::typeMetaToScalarType(dtype_) << ", saw " << tensor.scalar_type();
    else if (tensor.device() != device_)
      out << "device: expected " << device_ << ", saw " << tensor.device();
    else if (tensor.dim() != dim_)
      out << "rank: expected " << dim_ << ", saw " << tensor.dim();
    else if (tensor.sizes() != sizes())
      out << "size: expected " << sizes() << ", saw " << tensor.sizes();
    else if (tensor.strides() != strides())
      out << "stride: expected " << strides() << ", saw " << tensor.strides();
    else if (tensor.requires_grad() != requires_grad_)
      out << "requires_grad: expected " << requires_grad_ << ", saw " << tensor.requires_grad();
    else
      out << "dispatch keys: expected " << c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys_))
          << ", saw " << c10::toString(tensor.key_set());
    return out.str();
  }

  std::string describe() const override {
    std::ostringstream out;
    out << type_->tp_name << ' ' << at::typeMetaToScalarType(dtype_) << sizes() << " strides " << strides() << " on "
        << device_ << (requires_grad_ ? " requires_grad" : "");
    return out.str();
  }

 private:
  c10::IntArrayRef sizes() const { return {shape_.data(), static_cast<size_t>(dim_)}; }
  c10::IntArrayRef strides() const { return {shape_.data() + dim_, static_cast<size_t>(dim_)}; }

  PyTypeObject* type_;  // torch.Tensor or torch.nn.Parameter: never dies
  uint64_t keys_;
  caffe2::TypeMeta dtype_;
  c10::Device device_ = c10::kCPU;
  bool requires_grad_;
  int64_t dim_;
  std::vector<int64_t> shape_;  // sizes, then strides
};

}  // namespace

std::shared_ptr<const TensorExpectation> TensorExpectation::of(PyObject* tensor) {
  return std::make_shared<Expectation>(tensor);
}

bool is_leaf_tensor(PyObject* tensor) { return THPVariable_Unpack(tensor).is_leaf(); }

PyObject* gradient_of(PyObject* tensor) {
  const at::Tensor& gradient = THPVariable_Unpack(tensor).grad();
  if (!gradient.defined()) return nullptr;
  // A tensor keeps its Python face as long as it lives.
  return Ref::steal(THPVariable_Wrap(gradient)).get();
}

}  // namespace stator::capture
