// Attribute reads, by the kind of value. Code of the program is interpreted, never run for real.
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/class_attributes.h"
#include "capture/interpreter/attributes/function_attributes.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/deferred_calls.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

void unknown_attribute(PyTypeObject* type, PyObject* name, const char* why) {
  throw Break{BreakId::unknown_attribute, std::string(type->tp_name) + "." + name_text(name) + ": " + why};
}

/// Attributes of tuples, lists, dicts, sets, slices, iterators and literals: methods of their built-in class.
Value* builtin_instance_attr(Interpreter& in, Value* value, PyObject* name) {
  PyTypeObject* type = in.type_of(value);
  PyObject* on_class = look_up_attribute(type, name);
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(type));
  static PyObject* const shown = PyUnicode_InternFromString("mapping");
  if (auto* view = as<ViewValue>(value); view && PyUnicode_Compare(name, shown) == 0) return make_proxy(in, view->dict);
  if (value->kind == Kind::Opaque && !(on_class && model_of(on_class)))
    unknown_attribute(type, name, "of an object that is made when the plan ends");
  if (auto* dict = as<DictValue>(value);
      dict && type == default_dict_type() && PyUnicode_CompareWithASCIIString(name, "default_factory") == 0)
    return default_factory(in, dict);
  if (auto* sequence = as_sequence(value); sequence && is_named_tuple(type) && on_class &&
                                           !PyFunction_Check(on_class) && Py_TYPE(on_class) != &PyMethodDescr_Type &&
                                           Py_TYPE(on_class) != &PyProperty_Type && Py_TYPE(on_class)->tp_descr_get &&
                                           Py_TYPE(on_class) != &PyClassMethod_Type &&
                                           Py_TYPE(on_class) != &PyStaticMethod_Type) {
    // A tuple of that class whose items are their own indices tells the index of the field.
    Ref positions = Ref::steal(PyTuple_New(sequence->items.size()));
    for (size_t i = 0; i < sequence->items.size(); ++i) PyTuple_SET_ITEM(positions.get(), i, PyLong_FromSize_t(i));
    Ref arguments = Ref::steal(PyTuple_Pack(2, reinterpret_cast<PyObject*>(type), positions.get()));
    Ref maker = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyTuple_Type), "__new__"));
    Ref probe = Ref::steal(PyObject_Call(maker.get(), arguments.get(), nullptr));
    if (!probe) {
      PyErr_Clear();
      Ref single = Ref::steal(PyTuple_Pack(1, positions.get()));
      probe = Ref::steal(PyObject_Call(reinterpret_cast<PyObject*>(type), single.get(), nullptr));
    }
    Ref at = probe ? Ref::steal(PyObject_GetAttr(probe.get(), name)) : Ref();
    PyErr_Clear();
    if (at && PyLong_CheckExact(at.get())) return in.item(sequence, PyLong_AsSize_t(at.get()));
  }
  // An OrderedDict may have a `__dict__`.
  if (auto* dict = as<DictValue>(value); dict && dict->own)
    if (Value* written = in.dict_get(dict->own, in.constant(name))) return written;
  if (value->source && type->tp_dictoffset != 0 && !(on_class && is_data_descriptor(on_class)))
    if (refuse_shared_dict(in, value);
        Value* own = held_attribute(in, value->source->object.get(), value->source, name))
      return own;
  if (!on_class) return nullptr;
  if (value->kind == Kind::Constant || value->kind == Kind::Slice) {
    Ref literal = in.literal_of(value);
    if (literal && is_data_descriptor(on_class)) {
      Ref found = Ref::steal(PyObject_GetAttr(literal.get(), name));
      if (!found) {
        PyErr_Clear();
        return nullptr;
      }
      return in.wrap_result(found.get());
    }
  }
  return in.bind_descriptor(on_class, type, value, name);
}

/// Attributes of the class of bound methods come first; all others are the function's.
static Value* method_attr(Interpreter& in, MethodValue* method, PyObject* name) {
  auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  PyTypeObject* type = in.type_of(method);
  if (is("__self__")) return method->self;
  if (is("__func__") && type == &PyMethod_Type) return method->function;
  if (is("__class__")) return in.constant(reinterpret_cast<PyObject*>(type));
  PyObject* on_class = look_up_attribute(type, name);
  if (on_class && !is_data_descriptor(on_class)) return in.arena.make<MethodValue>(in.constant(on_class), method);
  return in.find_attr(method->function, name);
}

Value* Interpreter::find_attr(Value* value, PyObject* name) {
  value = unproxied(*this, value);
  switch (value->kind) {
    case Kind::Tensor:
      return tensor_attribute(*this, static_cast<TensorValue*>(value), name);
    case Kind::Array:
      return array_attribute(*this, static_cast<ArrayValue*>(value), name);
    case Kind::Constant:
      if (Value* deferred = deferred_attribute(*this, value, name)) return deferred;
      return constant_attr(*this, static_cast<ConstantValue*>(value), name);
    case Kind::Object:
      return object_attr(*this, static_cast<ObjectValue*>(value), name);
    case Kind::Function:
      return function_attr(*this, static_cast<FunctionValue*>(value), name);
    case Kind::Super:
      return super_attr(*this, static_cast<SuperValue*>(value), name);
    case Kind::Method:
      return method_attr(*this, static_cast<MethodValue*>(value), name);
    case Kind::Null:
    case Kind::Cell:
      throw Break{BreakId::unknown_attribute, name_text(name)};
    case Kind::Number:
    case Kind::Text:
      if (!look_up_attribute(type_of(value), name)) return nullptr;
      if (Value* deferred = deferred_attribute(*this, value, name)) return deferred;
      needs_number(*this, value, "is asked for its attribute " + name_text(name));
    case Kind::Opaque:
      if (Value* deferred = deferred_attribute(*this, value, name)) return deferred;
      [[fallthrough]];
    default:
      return builtin_instance_attr(*this, value, name);
  }
}

void raise_no_attribute(Interpreter& in, Value* value, PyObject* name) {
  PyObject* object = value->kind == Kind::Constant ? in.constant_of(value) : nullptr;
  std::string owner = "'" + std::string(in.type_of(value)->tp_name) + "' object";
  if (object && PyModule_Check(object)) {
    const Ref own = Ref::steal(PyModule_GetNameObject(object));
    if (!own) PyErr_Clear();
    owner = own ? "module '" + exact_text_of(own.get()) + "'" : "module";
  } else if (object && PyType_Check(object))
    owner = "type object '" + std::string(reinterpret_cast<PyTypeObject*>(object)->tp_name) + "'";
  else if (value->kind == Kind::Super)
    owner = "'super' object";
  in.raise(PyExc_AttributeError, owner + " has no attribute '" + exact_text_of(name) + "'");
}

Value* Interpreter::get_attr(Value* value, PyObject* name) {
  if (Value* found = find_attr(value, name)) return found;
  raise_no_attribute(*this, value, name);
}

}  // namespace stator::capture
