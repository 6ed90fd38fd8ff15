// Attributes of what is known by identity: Python modules, classes, super objects, C functions, enum members.
#include "capture/interpreter/attributes/class_attributes.h"

#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/names.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {
namespace {

Value* python_module_attr(Interpreter& in, ConstantValue* module, PyObject* name) {
  PyObject* object = module->object.get();
  PyObject* dict = PyModule_GetDict(object);
  const char* module_name = PyModule_GetName(object);
  if (!module_name) PyErr_Clear();
  Source* source = module->source ? module->source : in.sources().pinned(object, module_name ? module_name : "module");
  // A module can be given another class, one with a __getattribute__ of its own too.
  in.guard_type(source, Py_TYPE(object));
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  PyObject* reader = _PyType_Lookup(Py_TYPE(object), getattribute);
  if (!reader || !Py_IS_TYPE(reader, &PyWrapperDescr_Type))
    unknown_attribute(Py_TYPE(object), name, "its class has its own __getattribute__");
  if (auto written = written_global(in, dict, name)) return *written;
  PyObject* on_class = Py_TYPE(object) == &PyModule_Type ? nullptr : _PyType_Lookup(Py_TYPE(object), name);
  if (on_class && is_data_descriptor(on_class)) {
    in.guard_class(Py_TYPE(object));
    return in.bind_descriptor(on_class, Py_TYPE(object), module, name);
  }
  PyObject* found = plain_item(dict, name);
  if (!found && Py_TYPE(object) != &PyModule_Type) {
    // Lazily filled modules put the attribute into their dict the first time it is read.
    Ref filled = Ref::steal(PyObject_GetAttr(object, name));
    PyErr_Clear();
    found = PyDict_GetItemWithError(dict, name);
  }
  Source* dict_source = instance_dict_source(in, source, dict);
  if (found) return in.wrap(found, in.sources().child(dict_source, SourceKind::DictItem, 0, name, found));
  if (on_class) {
    in.guard(dict_source, FactKind::Absent, name);
    in.guard_class(Py_TYPE(object));
    return in.bind_descriptor(on_class, Py_TYPE(object), module, name);
  }
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  PyObject* fallback = Py_TYPE(object) == &PyModule_Type ? nullptr : _PyType_Lookup(Py_TYPE(object), getattr);
  if (fallback && PyFunction_Check(fallback)) {
    in.guard_class(Py_TYPE(object));
    return in.call(in.bind_descriptor(fallback, Py_TYPE(object), module, getattr), arguments({in.constant(name)}));
  }
  in.guard(dict_source, FactKind::Absent, name);
  if (PyObject* own = PyDict_GetItemWithError(dict, getattr); own && PyFunction_Check(own)) {
    Value* function = in.wrap(own, in.sources().child(dict_source, SourceKind::DictItem, 0, getattr, own));
    return in.call(function, arguments({in.constant(name)}));
  }
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  if (PyUnicode_Compare(name, dict_name) == 0 && !in.globals_written.count(dict)) return in.wrap(dict, dict_source);
  PyObject* plain = _PyType_Lookup(Py_TYPE(object), name);
  if (plain && !is_data_descriptor(plain)) return in.bind_descriptor(plain, Py_TYPE(object), module, name);
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (plain) unknown_attribute(Py_TYPE(object), name, "a field of a module");
  return nullptr;
}

/// What the class itself defines; borrowed from it. Built-in classes may keep their dict out of sight.
PyObject* own_class_attribute(PyTypeObject* type, PyObject* name) {
  if (type->tp_dict) return PyDict_GetItemWithError(type->tp_dict, name);
  Ref dict = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
  Ref found = dict ? Ref::steal(PyObject_GetItem(dict.get(), name)) : Ref();
  PyErr_Clear();
  return found.get();
}

/// Whether code of the program's would have a say in what an attribute of the class is.
bool asks_program(PyTypeObject* type, PyObject* name) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__getattribute__"),
                                    PyUnicode_InternFromString("__getattr__"), PyUnicode_InternFromString("__get__")};
  PyObject* found = _PyType_Lookup(type, name);
  return is_of_program(_PyType_Lookup(Py_TYPE(type), names[0])) ||
         is_of_program(_PyType_Lookup(Py_TYPE(type), names[1])) ||
         (found && is_of_program(_PyType_Lookup(Py_TYPE(found), names[2])));
}

}  // namespace

Value* plain_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name) {
  in.guard_class(type);
  PyTypeObject* meta = Py_TYPE(type);
  if (meta != &PyType_Type) in.guard_class(meta);
  Value* self = in.constant(reinterpret_cast<PyObject*>(type));
  PyObject* on_meta = _PyType_Lookup(meta, name);
  if (PyType_IsSubtype(meta, enum_meta_type()) && !asks_program(type, name)) {
    Ref member = Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
    PyErr_Clear();
    if (member && (is_literal(member.get()) || Py_TYPE(member.get()) == type)) return in.constant(std::move(member));
  }
  if (on_meta && is_data_descriptor(on_meta)) {
    if (Py_TYPE(on_meta) == &PyProperty_Type) return in.bind_descriptor(on_meta, meta, self, name);
    Ref found = Ref::steal(PyType_Type.tp_getattro(reinterpret_cast<PyObject*>(type), name));
    if (!found) {
      PyErr_Clear();
      return nullptr;
    }
    if (Value* value = in.prototypes.value_of(found.get())) return value;
    Prototype* prototype = in.prototypes.find(reinterpret_cast<PyObject*>(type));
    // It may tell what stands for values.
    if (prototype && !prototype->changes.empty() && PyUnicode_CompareWithASCIIString(name, "__doc__") == 0)
      unknown_attribute(type, name, "of a class that was changed");
    if (is_literal(found.get()) || is_known_by_identity(found.get())) return in.constant(std::move(found));
    if (PyTuple_CheckExact(found.get())) return in.wrap_result(found.get());
    // Names and annotations belong to the class, whose version is guarded; a proxy of the names is made for each
    // reader.
    const bool is_proxy = Py_TYPE(found.get()) == &PyDictProxy_Type;
    if (is_proxy) {
      found = Ref::borrow(pycompat::proxied_mapping(found.get()));
      refuse_written_class(in, found.get());
    }
    if (prototype) in.prototypes.own(found);
    if (PyDict_CheckExact(found.get())) {
      Value* dict = in.wrap(found.get(), in.sources().pinned(found.get(), text_of(name).c_str()));
      return is_proxy ? make_proxy(in, dict) : dict;
    }
    unknown_attribute(type, name, "an attribute of the class object itself");
  }
  if (Value* written = written_class_attr(in, type, name)) return written;
  if (PyObject* on_class = _PyType_Lookup(type, name)) return in.bind_descriptor(on_class, type, nullptr, name);
  if (Value* written = written_class_attr(in, meta, name)) return written;
  return on_meta ? in.bind_descriptor(on_meta, meta, self, name) : nullptr;
}

/// By the metaclass's `__getattribute__` and `__getattr__`, where it has such.
static Value* class_object_attr(Interpreter& in, PyTypeObject* type, PyObject* name) {
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  PyTypeObject* meta = Py_TYPE(type);
  if (meta == &PyType_Type) return plain_class_attr(in, type, name);
  in.guard_class(meta);
  auto ask = [&](PyObject* method, PyObject* which) {
    Value* self = in.constant(reinterpret_cast<PyObject*>(type));
    return in.call(in.bind_descriptor(method, meta, self, which), arguments({in.constant(name)}));
  };
  PyObject *reader = _PyType_Lookup(meta, getattribute), *fallback = _PyType_Lookup(meta, getattr);
  const bool is_own = reader && PyFunction_Check(reader);
  try {
    if (Value* found = is_own ? ask(reader, getattribute) : plain_class_attr(in, type, name)) return found;
  } catch (const Raise& raised) {
    if (!fallback || !is_exception(in, raised.exception, PyExc_AttributeError)) throw;
  }
  return fallback && PyFunction_Check(fallback) ? ask(fallback, getattr) : nullptr;
}

/// What a program may have hung on a cached function or a member of an enumeration, and may change; null if nothing.
static Value* written_to_constant(Interpreter& in, ConstantValue* constant, PyObject* on_class, PyObject* name) {
  PyObject* object = constant->object.get();
  PyTypeObject* type = Py_TYPE(object);
  bool is_member = PyType_IsSubtype(Py_TYPE(type), enum_meta_type());
  if ((!is_member && type != lru_cache_type()) || (on_class && is_data_descriptor(on_class))) return nullptr;
  std::string text = text_of(name);
  if (is_member && text.starts_with("_") && text.ends_with("_")) return nullptr;  // what makes it the member it is
  Ref dict = Ref::steal(PyObject_GenericGetDict(object, nullptr));
  PyErr_Clear();
  PyObject* own = dict ? plain_item(dict.get(), name) : nullptr;
  if (!own) return nullptr;
  Source* source = constant->source ? constant->source : in.sources().pinned(object, name_of(object).c_str());
  Source* from = instance_dict_source(in, source, dict.get());
  return in.wrap(own, in.sources().child(from, SourceKind::DictItem, 0, name, own));
}

Value* constant_attr(Interpreter& in, ConstantValue* constant, PyObject* name) {
  PyObject* object = constant->object.get();
  if (PyModule_Check(object)) return python_module_attr(in, constant, name);
  if (PyType_Check(object)) return class_object_attr(in, reinterpret_cast<PyTypeObject*>(object), name);
  if (constant->literal) return builtin_instance_attr(in, constant, name);
  // Known by identity: C functions, operators, enum members.
  in.constant_of(constant);
  PyTypeObject* type = Py_TYPE(object);
  in.guard_class(type);
  PyObject* on_class = _PyType_Lookup(type, name);
  PyTypeObject* kind = on_class ? Py_TYPE(on_class) : nullptr;
  bool is_modelled = kind == &PyWrapperDescr_Type && model_of(on_class);
  if (kind == &PyFunction_Type || kind == &PyProperty_Type || kind == &PyMethodDescr_Type || is_modelled)
    return in.bind_descriptor(on_class, type, constant, name);
  if (Value* own = written_to_constant(in, constant, on_class, name)) return own;
  Ref found = Ref::steal(PyObject_GetAttr(object, name));
  if (!found) {
    PyErr_Clear();
    return nullptr;
  }
  if (is_literal(found.get()) || is_known_by_identity(found.get())) return in.constant(std::move(found));
  if (PyTuple_CheckExact(found.get())) return in.wrap_result(found.get());
  if (PyFunction_Check(found.get()))
    return in.wrap(found.get(), in.sources().pinned(found.get(), text_of(name).c_str()));
  unknown_attribute(type, name, "state of an object known by identity only");
}

Value* super_attr(Interpreter& in, SuperValue* super, PyObject* name) {
  in.guard_class(super->start_type);
  PyObject* mro = super->start_type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(super->type)) ++i;
  for (++i; i < n; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (Value* written = written_on_class(in, base, name)) return written;
    PyObject* found = own_class_attribute(base, name);
    if (!found) continue;
    auto* self = as<ConstantValue>(super->self);
    bool on_class = self && self->object.get() == reinterpret_cast<PyObject*>(super->start_type);
    return in.bind_descriptor(found, super->start_type, on_class ? nullptr : super->self, name);
  }
  return nullptr;
}

}  // namespace stator::capture
