#include "bindings/graph_convert.h"

#include <ATen/ops/_local_scalar_dense_native.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "bindings/boxed_call.h"
#include "bindings/graph_bindings.h"
#include "capture/tensors/tensor_object.h"
#include "core/shapes/env.h"

namespace stator::bindings {
using namespace capture;
namespace {

const c10::Type& without_optional(const c10::Type& type) {
  if (type.kind() != c10::TypeKind::OptionalType) return type;
  return without_optional(*type.expectRef<c10::OptionalType>().getElementType());
}

template <class Items, class Each>
Ref tuple_of(const Items& items, const Each& each) {
  auto tuple = owned(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  Py_ssize_t i = 0;
  for (const auto& item : items) PyTuple_SET_ITEM(tuple.get(), i++, each(item).release());
  return tuple;
}

Ref scalar_object(const at::Scalar& number) {
  if (number.isBoolean()) return owned(PyBool_FromLong(number.toBool()));
  if (number.isUnsigned()) return owned(PyLong_FromUnsignedLongLong(number.toUInt64()));  // more than int64 holds
  if (number.isIntegral(false)) return owned(PyLong_FromLongLong(number.toLong()));
  if (number.isFloatingPoint()) return owned(PyFloat_FromDouble(number.toDouble()));
  auto value = number.toComplexDouble();
  return owned(PyComplex_FromDoubles(value.real(), value.imag()));
}

Ref integer_object(int64_t value, const std::string& type) {
  if (type == "ScalarType") return dtype_object(static_cast<c10::ScalarType>(value));
  if (type == "Layout")
    return Ref::borrow(reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<at::Layout>(value))));
  if (type == "MemoryFormat")
    return Ref::borrow(torch::utils::getTHPMemoryFormat(static_cast<at::MemoryFormat>(value)));
  return owned(PyLong_FromLongLong(value));
}

}  // namespace

Ref owned(PyObject* object) {
  if (object == nullptr) throw PythonError();
  return Ref::steal(object);
}

Ref text_object(std::string_view text) {
  return owned(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

Ref dtype_object(c10::ScalarType dtype) { return Ref::borrow(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype))); }

Ref constant_object(const c10::IValue& value, const c10::Type& real_type) {
  if (value.isNone()) return Ref::borrow(Py_None);
  if (value.isInt()) return integer_object(value.toInt(), without_optional(real_type).str());
  if (value.isScalar()) return scalar_object(value.toScalar());
  if (value.isString()) return text_object(value.toStringRef());
  if (value.isDevice()) return owned(THPDevice_New(value.toDevice()));
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (!tensor.defined()) return Ref::borrow(Py_None);
    // By the kernel: the value is not traced by a trace that runs.
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      return scalar_object(at::native::_local_scalar_dense_cpu(tensor));
    return owned(wrap_tensor(tensor));
  }
  if (value.isPyObject()) return Ref::borrow(value.toPyObjectHolder()->getPyObject());
  if (!value.isList()) return object_of(value);
  return list_of(value.toListRef(), [&](const c10::IValue& item) { return constant_object(item, real_type); });
}

Ref number_object(const shapes::Expr& number) {
  shapes::Ex simple = number->env->simplify(number);
  if (auto integer = simple->int_constant()) return owned(PyLong_FromLongLong(*integer));
  return text_object(shapes::to_python(simple));
}

Ref value_object(graph::ValueId id, PyObject* value_type) {
  if (id == graph::kNoValue) return Ref::borrow(Py_None);
  return owned(PyObject_CallFunction(value_type, "I", id));
}

Ref argument_object(const graph::Argument& argument, const c10::Type& real_type, PyObject* value_type) {
  switch (argument.kind) {
    case graph::Argument::Kind::Value:
      return value_object(argument.value, value_type);
    case graph::Argument::Kind::Constant:
      return constant_object(argument.constant, real_type);
    case graph::Argument::Kind::Graph:
      return owned(wrap_graph(argument.graph()));
    case graph::Argument::Kind::List:
      break;
  }
  return list_of(argument.items, [&](const auto& item) { return argument_object(item, real_type, value_type); });
}

Ref meta_object(const graph::TensorMeta& meta) {
  auto number = [](const graph::Dim& dim) {
    return dim.symbol ? number_object(dim.symbol) : owned(PyLong_FromLongLong(dim.number));
  };
  auto dtype = dtype_object(meta.dtype);
  auto sizes = tuple_of(meta.sizes, number);
  auto strides = tuple_of(meta.strides, number);
  auto device = owned(THPDevice_New(meta.device));
  return owned(
      PyTuple_Pack(5, dtype.get(), sizes.get(), strides.get(), device.get(), meta.requires_grad ? Py_True : Py_False));
}

}  // namespace stator::bindings
