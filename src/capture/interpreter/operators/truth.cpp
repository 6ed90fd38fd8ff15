// bool(value) and len(value).
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/operators/special_methods.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/assumptions.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/tensor_items.h"

namespace stator::capture {

/// Torch asks only tensors of one element for their truth. The shape decides that, and not the data.
static void raise_unless_one_element(Interpreter& in, Value* tensor) {
  PyObject* count = in.constant_of(in.call_method(tensor, "numel", {}));
  const long elements = count ? PyLong_AsLong(count) : 1;
  if (elements == 1) return;
  const char* what = elements == 0 ? "no values" : "more than one value";
  in.raise(PyExc_RuntimeError, std::string("Boolean value of Tensor with ") + what + " is ambiguous");
}

bool Interpreter::truth(Value* value) {
  switch (value->kind) {
    case Kind::Constant: {
      if (std::optional<bool> known = varying_comparison(*this, Py_NE, value, integer(0))) return *known;
      if (Value* number = graph_number(*this, value); number != value) return truth(number);
      PyObject* object = constant_of(value);
      if (!static_cast<ConstantValue*>(value)->literal) {
        // Enum members, and classes with a metaclass.
        if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) return truth_by_class(*this, value);
        if (PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object)) return true;
      }
      int result = PyObject_IsTrue(object);
      if (result < 0) raise_current(*this);
      return result == 1;
    }
    case Kind::Tensor:
      if (is_customised(*this, static_cast<TensorValue*>(value), "__bool__"))
        return special_truth(*this, special_method(*this, value, "__bool__"));
      raise_unless_one_element(*this, value);
      throw Break{BreakId::data_dependent, "the truth of a tensor decides a branch"};
    case Kind::Array:
      throw Break{BreakId::data_dependent, "the truth of an array decides a branch"};
    case Kind::Number:
    case Kind::Text:
      if (auto known = number_truth(*this, value)) return *known;
      if (auto assumed = earlier_assumed(*this, value)) return *assumed;
      needs_number(*this, value, "decides a branch");
    case Kind::View:
    case Kind::Dict:
      return *length_of(value) > 0;
    case Kind::Tuple:
    case Kind::List:
      return !static_cast<SequenceValue*>(value)->items.empty();
    case Kind::Set:
      return set_size(static_cast<SetValue*>(value)) > 0;
    case Kind::Object:
      return truth_by_class(*this, value);
    case Kind::Opaque:
      if (Value* number = graph_number(*this, value); number != value) return truth(number);
      refuse_result(*this, value);
      return true;
    default:
      return true;
  }
}

std::optional<Py_ssize_t> Interpreter::length_of(Value* value) {
  switch (value->kind) {
    case Kind::Tuple:
    case Kind::List:
      return static_cast<SequenceValue*>(value)->items.size();
    case Kind::Dict: {
      auto* dict = static_cast<DictValue*>(value);
      if (dict->external && !dict->mutated) {
        guards.add(dict->source, FactKind::Length, nullptr, PyDict_GET_SIZE(dict->external.get()));
        return PyDict_GET_SIZE(dict->external.get());
      }
      return dict->live;
    }
    case Kind::View:
      return length_of(static_cast<ViewValue*>(value)->dict);
    case Kind::Set:
      return set_size(static_cast<SetValue*>(value));
    case Kind::Array:
      return PyLong_AsSsize_t(constant_of(array_method(*this, "__len__", {value})));
    case Kind::Constant: {
      Py_ssize_t length = PyObject_Size(constant_of(value));
      if (length < 0) raise_current(*this);
      return length;
    }
    case Kind::Tensor: {
      auto* tensor = static_cast<TensorValue*>(value);
      if (is_customised(*this, tensor, "__len__")) return special_length(*this, value);
      Value* length = tensor_length(*this, tensor);
      if (is_symbolic_number(length)) needs_number(*this, length, "as a length");
      return PyLong_AsSsize_t(constant_of(length));
    }
    case Kind::Text:
      needs_number(*this, value, "is in a text whose length is asked for");
    case Kind::Object:
      return special_length(*this, value);
    default:
      return std::nullopt;
  }
}
}  // namespace stator::capture
