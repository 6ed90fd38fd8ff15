// Binding of descriptors, and special methods looked up on classes.
#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

/// The tuple index that a field of a named tuple reads; negative: the descriptor is not such a field.
Py_ssize_t tuple_field(PyObject* descriptor) {
  static PyObject* const field = known_object("_collections._tuplegetter");
  if (reinterpret_cast<PyObject*>(Py_TYPE(descriptor)) != field) return -1;
  Ref parts = Ref::steal(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
  PyObject* arguments = parts ? PyTuple_GetItem(parts.get(), 1) : nullptr;
  PyObject* index = arguments ? PyTuple_GetItem(arguments, 0) : nullptr;
  Py_ssize_t at = index ? PyLong_AsSsize_t(index) : -1;
  PyErr_Clear();
  return at;
}

/// Whether the descriptor was found in a class that the program made, and not in an external base.
bool is_of_prototype(Interpreter& in, PyObject* descriptor, PyTypeObject* owner, PyObject* name) {
  if (in.prototypes.empty()) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(owner->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(owner->tp_mro, i);
    PyObject* names = in.prototypes.find(base) ? reinterpret_cast<PyTypeObject*>(base)->tp_dict : nullptr;
    if (names && PyDict_GetItemWithError(names, name) == descriptor) return true;
  }
  return false;
}

/// An object that the class found in its MRO, and that is not a descriptor, at its place in the class that has it; null
/// if that class never changes.
Value* class_data(Interpreter& in, PyTypeObject* type, PyObject* name, PyObject* object) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* own = look_up_own(base, name);
    if (!own) continue;
    Source* source = own == object ? in.guards.class_item(base, name, object) : nullptr;
    return source ? in.wrap(object, source) : nullptr;
  }
  return nullptr;
}

/// The value of a prototype's part if it needs no source: it represents a value, or never changes. Null otherwise.
Value* part_of_prototype(Interpreter& in, PyObject* part) {
  if (Value* value = in.prototypes.value_of(part)) return value;
  return is_literal(part) || is_guarded_by_identity(part) ? in.constant(part) : nullptr;
}

}  // namespace

/// "Class.name". Valid until the next call.
static const char* text_of(PyTypeObject* owner, PyObject* name) {
  static std::string text;  // kept for its memory
  text.assign(owner->tp_name).append(".").append(stator::text_of(name));
  return text.c_str();
}

Value* Interpreter::bind_descriptor(PyObject* descriptor, PyTypeObject* owner, Value* self, PyObject* name) {
  PyTypeObject* type = Py_TYPE(descriptor);
  const bool is_own = is_of_prototype(*this, descriptor, owner, name);
  auto pinned = [&](PyObject* object) {
    Value* part = is_own ? part_of_prototype(*this, object) : nullptr;
    if (part) return part;
    return wrap(object, guards.sources().pinned(object, text_of(owner, name)));
  };
  if (type == &PyFunction_Type) {
    Value* function = pinned(descriptor);
    return self ? arena.make<MethodValue>(function, self) : function;
  }
  if (type == &PyClassMethod_Type) {
    Ref inner = Ref::steal(PyObject_GetAttrString(descriptor, "__func__"));
    return arena.make<MethodValue>(pinned(inner.get()), constant(reinterpret_cast<PyObject*>(owner)));
  }
  if (type == &PyStaticMethod_Type) {
    Ref inner = Ref::steal(PyObject_GetAttrString(descriptor, "__func__"));
    return pinned(inner.get());
  }
  // This covers subclasses of property that inherit its __get__.
  if (PyType_IsSubtype(type, &PyProperty_Type) && type->tp_descr_get == PyProperty_Type.tp_descr_get) {
    if (!self) return type == &PyProperty_Type ? constant(descriptor) : pinned(descriptor);
    Ref getter = Ref::steal(PyObject_GetAttrString(descriptor, "fget"));
    CallArgs args;
    args.positional = {self};
    return call(pinned(getter.get()), std::move(args));
  }
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyInstanceMethod_Type)
    return self ? static_cast<Value*>(arena.make<MethodValue>(constant(descriptor), self)) : constant(descriptor);
  if (type == &PyClassMethodDescr_Type && model_of(descriptor))
    return arena.make<MethodValue>(constant(descriptor), constant(reinterpret_cast<PyObject*>(owner)));
  if (type == &PyClassMethodDescr_Type) {
    // The descriptor is used and not the name: super() may have found it behind another one of the same name.
    return constant(Ref::steal(type->tp_descr_get(descriptor, nullptr, reinterpret_cast<PyObject*>(owner))));
  }
  if (PyCFunction_Check(descriptor)) return constant(descriptor);
  if (Py_ssize_t field = self ? tuple_field(descriptor) : -1; field >= 0) {
    SequenceValue* items = list_part(self);
    if (items && field < static_cast<Py_ssize_t>(items->items.size())) return item(items, field);
  }
  if (auto* tensor = as<TensorValue>(self); tensor && type == &PyGetSetDescr_Type)
    return tensor_field(*this, tensor, name);
  if (!type->tp_descr_get) {
    Value* data = is_own ? nullptr : class_data(*this, owner, name, descriptor);
    if (data) return data;
    look_up(owner, name);
    return pinned(descriptor);
  }
  static PyObject* const cached_property = known_object("functools.cached_property");
  auto* owner_object = as<ObjectValue>(self);
  if (reinterpret_cast<PyObject*>(type) == cached_property && owner_object) {
    // The instance's dict has no value yet. The real `__get__` is not interpreted, since it takes a lock.
    Ref function = Ref::steal(PyObject_GetAttrString(descriptor, "func")),
        attribute = Ref::steal(PyObject_GetAttrString(descriptor, "attrname"));
    if (!attribute || !PyUnicode_Check(attribute.get()))
      unknown_attribute(owner, name, "a cached property without name");
    Value* made = call(pinned(function.get()), arguments({self}));
    Value* attributes = instance_dict(*this, owner_object);
    set_item(attributes, constant(attribute.get()), made);
    return made;
  }
  static PyObject* const get = PyUnicode_InternFromString("__get__");
  PyObject* getter = look_up(type, get);
  if (getter && PyFunction_Check(getter)) {
    guards.add_class(type);
    CallArgs args;
    args.positional = {self ? self : none(), constant(reinterpret_cast<PyObject*>(owner))};
    return call(bind_descriptor(getter, type, pinned(descriptor), get), std::move(args));
  }
  if (!self && is_guarded_by_identity(descriptor)) return constant(descriptor);
  if (type == lru_cache_type() || is_transparent(type)) {
    Value* function = pinned(descriptor);
    return self ? arena.make<MethodValue>(function, self) : function;
  }
  unknown_attribute(owner, name, "a descriptor of a kind that is not modelled");
}

/// Raises CPython's TypeError for a missing special method, if the message does not depend on the instruction.
static void raise_without(Interpreter& in, Value* object, PyObject* method) {
  struct Row {
    const char *method, *message;
  };
  static constexpr Row kRows[] = {
      {"__call__", "is not callable"},
      {"__getitem__", "is not subscriptable"},
      {"__setitem__", "does not support item assignment"},
      {"__delitem__", "doesn't support item deletion"},
      {"__enter__", "does not support the context manager protocol"},
      {"__exit__", "does not support the context manager protocol (missed __exit__ method)"},
  };
  PyTypeObject* type = in.type_of(object);
  if (PyType_IsSubtype(type, &PyType_Type)) return;
  for (const Row& row : kRows)
    if (PyUnicode_CompareWithASCIIString(method, row.method) == 0)
      in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object " + row.message);
}

Value* type_method(Interpreter& in, Value* object, PyObject* name) {
  PyTypeObject* type = in.type_of(object);
  in.guards.add_class(type);
  PyObject* found = look_up(type, name);
  if (!found) raise_without(in, object, name);
  if (found == Py_None && PyUnicode_CompareWithASCIIString(name, "__iter__") == 0)
    in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
  if (!found) throw Break{BreakId::raises, "a '" + std::string(type->tp_name) + "' object has no " + name_text(name)};
  return in.bind_descriptor(found, type, object, name);
}

}  // namespace stator::capture
