#include "capture/interpreter/operators/special_methods.h"
#include "capture/interpreter/protocol/special_methods.h"

#include <string_view>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/torch/overrides.h"

namespace stator::capture {

PyObject* class_lookup(PyTypeObject* type, const char* name) {
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return look_up(type, key.get());
}

bool has_special_methods(const Value* value) { return value->kind == Kind::Object || value->kind == Kind::Tensor; }

bool class_decides(Interpreter& in, Value* a, Value* b, std::initializer_list<const char*> methods) {
  for (Value* value : {a, b}) {
    if (value->kind == Kind::Object) return true;
    auto* tensor = as<TensorValue>(value);
    for (const char* method : methods)
      if (tensor && method && class_overrides(in, tensor, method)) return true;
  }
  return false;
}

Value* special_method(Interpreter& in, Value* value, const char* name) {
  PyTypeObject* type = in.type_of(value);
  in.guards.add_class(type);
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* found = look_up(type, key.get());
  if (!found) return nullptr;
  if (found == Py_None) {
    static constexpr std::string_view kContains = "__contains__";
    if (name != kContains) in.raise(PyExc_TypeError, "'NoneType' object is not callable");
    in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not a container");
  }
  return in.bind_descriptor(found, type, value, key.get());
}

bool is_not_implemented(Interpreter& in, Value* result) {
  return result->kind == Kind::Constant && in.constant_of(result) == Py_NotImplemented;
}

Value* ask_special(Interpreter& in, Value* self, const char* name, Value* argument) {
  Value* method = special_method(in, self, name);
  if (!method) return nullptr;
  Value* result = in.call(method, arguments({argument}));
  return is_not_implemented(in, result) ? nullptr : result;
}

Py_ssize_t special_length(Interpreter& in, Value* value) {
  Value* method = special_method(in, value, "__len__");
  if (!method)
    in.raise(PyExc_TypeError, std::string("object of type '") + in.type_of(value)->tp_name + "' has no len()");
  PyObject* given = in.constant_of(in.call(method, {}));
  if (!given || PyType_Check(given)) throw Break{BreakId::unknown_object, "__len__ gave no int"};
  Ref number = Ref::steal(PyNumber_Index(given));
  if (!number) raise_current(in);
  if (PyNumber_AsSsize_t(number.get(), nullptr) < 0) in.raise(PyExc_ValueError, "__len__() should return >= 0");
  const Py_ssize_t length = PyNumber_AsSsize_t(number.get(), PyExc_OverflowError);
  if (length < 0) raise_current(in);
  return length;
}

bool special_truth(Interpreter& in, Value* method) {
  Value* given = in.call(method, {});
  PyTypeObject* type = in.type_of(given);
  if (type != &PyBool_Type)
    in.raise(PyExc_TypeError, std::string("__bool__ should return bool, returned ") + type->tp_name);
  return in.truth(given);
}

bool truth_by_class(Interpreter& in, Value* value) {
  if (Value* method = special_method(in, value, "__bool__")) return special_truth(in, method);
  return !special_method(in, value, "__len__") || special_length(in, value) > 0;
}

}  // namespace stator::capture
