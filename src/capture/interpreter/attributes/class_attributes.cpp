// Attributes of objects guarded by identity: Python modules, classes, super objects, C functions, enum members.
#include "capture/interpreter/attributes/class_attributes.h"

#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/objects.h"

#include <structmember.h>

namespace stator::capture {
namespace {

Value* python_module_attr(Interpreter& in, ConstantValue* module, PyObject* name) {
  PyObject* object = module->object.get();
  PyObject* dict = PyModule_GetDict(object);
  const char* module_name = PyModule_GetName(object);
  if (!module_name) PyErr_Clear();
  Source* source =
      module->source ? module->source : in.guards.sources().pinned(object, module_name ? module_name : "module");
  // The class of a module can be assigned, and may have a __getattribute__.
  in.guards.add_type(source, Py_TYPE(object));
  in.guards.add_class(Py_TYPE(object));
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  PyObject* reader = look_up(Py_TYPE(object), getattribute);
  if (!reader || !Py_IS_TYPE(reader, &PyWrapperDescr_Type))
    unknown_attribute(Py_TYPE(object), name, "its class has its own __getattribute__");
  if (auto written = written_global(in, dict, name)) return *written;
  PyObject* on_class = Py_TYPE(object) == &PyModule_Type ? nullptr : look_up_attribute(Py_TYPE(object), name);
  if (on_class && is_data_descriptor(on_class)) return in.bind_descriptor(on_class, Py_TYPE(object), module, name);
  PyObject* found = plain_item(dict, name);
  if (!found && Py_TYPE(object) != &PyModule_Type) {
    // A lazily loaded module puts the attribute into its dict when it is first read.
    Ref filled = Ref::steal(PyObject_GetAttr(object, name));
    PyErr_Clear();
    found = PyDict_GetItemWithError(dict, name);
  }
  Source* dict_source = instance_dict_source(in, source, dict);
  if (found) return in.wrap(found, in.guards.sources().child(dict_source, SourceKind::DictItem, 0, name, found));
  if (on_class) {
    in.guards.add(dict_source, FactKind::Absent, name);
    return in.bind_descriptor(on_class, Py_TYPE(object), module, name);
  }
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  PyObject* fallback = Py_TYPE(object) == &PyModule_Type ? nullptr : look_up(Py_TYPE(object), getattr);
  if (fallback && PyFunction_Check(fallback))
    return in.call(in.bind_descriptor(fallback, Py_TYPE(object), module, getattr), arguments({in.constant(name)}));
  in.guards.add(dict_source, FactKind::Absent, name);
  if (PyObject* own = PyDict_GetItemWithError(dict, getattr); own && PyFunction_Check(own)) {
    Value* function = in.wrap(own, in.guards.sources().child(dict_source, SourceKind::DictItem, 0, getattr, own));
    return in.call(function, arguments({in.constant(name)}));
  }
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  if (PyUnicode_Compare(name, dict_name) == 0 && !in.effects.globals_written.count(dict))
    return in.wrap(dict, dict_source);
  PyObject* plain = look_up_attribute(Py_TYPE(object), name);
  if (plain && !is_data_descriptor(plain)) return in.bind_descriptor(plain, Py_TYPE(object), module, name);
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (plain) unknown_attribute(Py_TYPE(object), name, "a field of a module");
  return nullptr;
}

/// Whether reading the attribute of the class would call code of the program.
bool asks_program(PyTypeObject* type, PyObject* name) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__getattribute__"),
                                    PyUnicode_InternFromString("__getattr__"), PyUnicode_InternFromString("__get__")};
  PyObject* found = look_up_attribute(type, name);
  return is_of_program(look_up(Py_TYPE(type), names[0])) || is_of_program(look_up(Py_TYPE(type), names[1])) ||
         (found && is_of_program(look_up(Py_TYPE(found), names[2])));
}

}  // namespace

Value* plain_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name) {
  in.guards.add_class(type);
  PyTypeObject* meta = Py_TYPE(type);
  if (meta != &PyType_Type) in.guards.add_class(meta);
  Value* self = in.constant(reinterpret_cast<PyObject*>(type));
  PyObject* on_meta = look_up_attribute(meta, name);
  if (PyType_IsSubtype(meta, enum_meta_type()) && !asks_program(type, name)) {
    Ref member = Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
    PyErr_Clear();
    if (member && (is_literal(member.get()) || Py_TYPE(member.get()) == type)) return in.constant(std::move(member));
  }
  if (on_meta && is_data_descriptor(on_meta)) {
    if (Py_TYPE(on_meta) == &PyProperty_Type) return in.bind_descriptor(on_meta, meta, self, name);
    look_up(type, name);  // what is read may be kept in the class's dict: `__annotations__`, `__doc__`
    Ref found = Ref::steal(PyType_Type.tp_getattro(reinterpret_cast<PyObject*>(type), name));
    if (!found) {
      PyErr_Clear();
      return nullptr;
    }
    if (Value* value = in.prototypes.value_of(found.get())) return value;
    Prototype* prototype = in.prototypes.find(reinterpret_cast<PyObject*>(type));
    // A decorator may have written text about surrogates into it.
    if (prototype && !prototype->changes.empty() && PyUnicode_CompareWithASCIIString(name, "__doc__") == 0)
      unknown_attribute(type, name, "of a class that was changed");
    if (is_literal(found.get()) || is_guarded_by_identity(found.get())) return in.constant(std::move(found));
    if (PyTuple_CheckExact(found.get())) return in.wrap_result(found.get());
    // The dicts of names and annotations belong to the class, whose version is guarded. Each read of `__dict__` makes a
    // new proxy.
    const bool is_proxy = Py_TYPE(found.get()) == &PyDictProxy_Type;
    if (is_proxy) {
      found = Ref::borrow(pycompat::proxied_mapping(found.get()));
      refuse_written_class(in, found.get());
    }
    if (prototype) in.prototypes.own(found);
    if (PyDict_CheckExact(found.get())) {
      Value* dict = in.wrap(found.get(), in.guards.sources().pinned(found.get(), name_text(name).c_str()));
      return is_proxy ? make_proxy(in, dict) : dict;
    }
    unknown_attribute(type, name, "an attribute of the class object itself");
  }
  if (Value* written = written_class_attr(in, type, name)) return written;
  if (PyObject* on_class = look_up_attribute(type, name)) return in.bind_descriptor(on_class, type, nullptr, name);
  if (Value* written = written_class_attr(in, meta, name)) return written;
  return on_meta ? in.bind_descriptor(on_meta, meta, self, name) : nullptr;
}

/// An attribute of a class, by the metaclass's `__getattribute__` and `__getattr__` if it has them.
static Value* class_object_attr(Interpreter& in, PyTypeObject* type, PyObject* name) {
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  PyTypeObject* meta = Py_TYPE(type);
  if (meta == &PyType_Type) return plain_class_attr(in, type, name);
  in.guards.add_class(meta);
  auto ask = [&](PyObject* method, PyObject* which) {
    Value* self = in.constant(reinterpret_cast<PyObject*>(type));
    return in.call(in.bind_descriptor(method, meta, self, which), arguments({in.constant(name)}));
  };
  PyObject *reader = look_up(meta, getattribute), *fallback = look_up(meta, getattr);
  const bool is_own = reader && PyFunction_Check(reader);
  try {
    if (Value* found = is_own ? ask(reader, getattribute) : plain_class_attr(in, type, name)) return found;
  } catch (const Raise& raised) {
    if (!fallback || !is_exception(in, raised.exception, PyExc_AttributeError)) throw;
  }
  return fallback && PyFunction_Check(fallback) ? ask(fallback, getattr) : nullptr;
}

/// Where the attributes of an object that is guarded by identity are read from.
static Source* source_of(Interpreter& in, ConstantValue* constant) {
  PyObject* object = constant->object.get();
  return constant->source ? constant->source : in.guards.sources().pinned(object, name_of(object).c_str());
}

/// The object's own dict, made if it has none yet; null for objects without one.
static PyObject* dict_of(PyObject* object) {
  PyObject* dict;
  if (stator_instance_dict(object, &dict) == kStatorDictNone) return nullptr;
  Ref made = Ref::steal(PyObject_GenericGetDict(object, nullptr));
  PyErr_Clear();
  return made && PyDict_CheckExact(made.get()) ? made.get() : nullptr;
}

/// What the object itself holds under this name; guarded, also where it is nothing.
static Value* own_constant_attr(Interpreter& in, ConstantValue* constant, PyObject* name) {
  PyObject* dict = dict_of(constant->object.get());
  if (!dict) return nullptr;
  Source* from = instance_dict_source(in, source_of(in, constant), dict);
  PyObject* found = plain_item(dict, name);
  if (!found) {
    // Operator packets put an overload into their dict the first time it is read.
    static PyObject* const packet = known_object("torch._ops.OpOverloadPacket");
    if (reinterpret_cast<PyObject*>(Py_TYPE(constant->object.get())) == packet) {
      Ref filled = Ref::steal(PyObject_GetAttr(constant->object.get(), name));
      PyErr_Clear();
      found = plain_item(dict, name);
    }
  }
  if (found) return in.wrap(found, in.guards.sources().child(from, SourceKind::DictItem, 0, name, found));
  in.guards.add(from, FactKind::Absent, name);
  return nullptr;
}

/// A field that the class of the object describes in C.
static Value* native_constant_field(Interpreter& in, ConstantValue* constant, PyObject* descriptor, PyObject* name) {
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  PyObject* object = constant->object.get();
  if (PyObject* dict = PyUnicode_Compare(name, dict_name) == 0 ? dict_of(object) : nullptr)
    return in.wrap(dict, instance_dict_source(in, source_of(in, constant), dict));
  Ref found = Ref::steal(PyObject_GetAttr(object, name));
  PyErr_Clear();
  const auto* member = Py_TYPE(descriptor) == &PyMemberDescr_Type
                           ? reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member
                           : nullptr;
  const bool holds_object = member && (member->type == T_OBJECT || member->type == T_OBJECT_EX);
  // A function's class may let it be written.
  if (holds_object && !(member->flags & READONLY)) {
    Source* source = source_of(in, constant);
    if (found)
      return in.wrap(found.get(),
                     in.guards.sources().child(source, SourceKind::Attribute, kClassField, name, found.get()));
    in.guards.add(source, FactKind::NoField, name);
    return nullptr;
  }
  if (!found) return nullptr;
  if (is_literal(found.get()) || is_guarded_by_identity(found.get())) return in.constant(std::move(found));
  if (PyTuple_CheckExact(found.get())) return in.wrap_result(found.get());
  if (PyFunction_Check(found.get()))
    return in.wrap(found.get(), in.guards.sources().pinned(found.get(), name_text(name).c_str()));
  unknown_attribute(Py_TYPE(object), name, "state of an object guarded by identity only");
}

/// `list[int].x` is `list.x`, but for what the alias itself tells; null if it tells it itself.
static PyObject* aliased_class(PyObject* object, PyObject* name) {
  static PyTypeObject* const alias = reinterpret_cast<PyTypeObject*>(known_object("types.GenericAlias"));
  static constexpr const char* kOwn[] = {
      "__class__",       "__bases__",     "__origin__", "__args__", "__unpacked__", "__parameters__",
      "__mro_entries__", "__reduce_ex__", "__reduce__", "__copy__", "__deepcopy__", "__typing_unpacked_tuple_args__"};
  if (!PyObject_TypeCheck(object, alias)) return nullptr;
  for (const char* own : kOwn)
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) return nullptr;
  // The alias holds it for ever.
  return Ref::steal(PyObject_GetAttrString(object, "__origin__")).get();
}

void Interpreter::guard_own_state(ConstantValue* constant) {
  PyObject* object = constant->object.get();
  if (constant->literal || constant->state_guarded || !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) ||
      PyType_Check(object) || PyModule_Check(object))
    return;
  constant->state_guarded = true;
  PyObject* dict = dict_of(object);
  if (!dict) return;
  Source* from = instance_dict_source(*this, source_of(*this, constant), dict);
  Py_ssize_t position = 0;
  PyObject *name, *value;
  const bool is_member = PyType_IsSubtype(Py_TYPE(Py_TYPE(object)), enum_meta_type());
  while (PyDict_Next(dict, &position, &name, &value)) {
    if (!PyUnicode_CheckExact(name)) continue;
    Source* place = guards.sources().child(from, SourceKind::DictItem, 0, name, value);
    const bool is_container = PyList_CheckExact(value) || PyDict_CheckExact(value) || PyAnySet_CheckExact(value);
    // What a member of an enumeration is made of, its methods may look through.
    if (is_literal(value) || (is_member && is_container))
      literal_of(wrap(value, place));
    else
      guards.add(place, FactKind::Identity, value);
  }
}

Value* constant_attr(Interpreter& in, ConstantValue* constant, PyObject* name) {
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  PyObject* object = constant->object.get();
  if (PyModule_Check(object)) return python_module_attr(in, constant, name);
  if (PyType_Check(object)) return class_object_attr(in, reinterpret_cast<PyTypeObject*>(object), name);
  if (constant->literal) return builtin_instance_attr(in, constant, name);
  // Guarded by identity: C functions, operators, enum members, typing aliases.
  in.constant_of(constant);
  PyTypeObject* type = Py_TYPE(object);
  in.guards.add_class(type);
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(type));
  if (PyObject* origin = aliased_class(object, name)) return in.find_attr(in.constant(origin), name);
  PyObject* reader = look_up(type, getattribute);
  if (reader && PyFunction_Check(reader)) unknown_attribute(type, name, "its class has its own __getattribute__");
  PyObject* on_class = look_up_attribute(type, name);
  PyTypeObject* kind = on_class ? Py_TYPE(on_class) : nullptr;
  if (kind == &PyMemberDescr_Type || kind == &PyGetSetDescr_Type)
    return native_constant_field(in, constant, on_class, name);
  if (on_class && is_data_descriptor(on_class)) return in.bind_descriptor(on_class, type, constant, name);
  if (Value* own = own_constant_attr(in, constant, name)) return own;
  if (kind == &PyWrapperDescr_Type && !model_of(on_class))
    return in.constant(Ref::steal(PyObject_GetAttr(object, name)));
  if (on_class) return in.bind_descriptor(on_class, type, constant, name);
  PyObject* fallback = look_up(type, getattr);
  static PyObject* const packet_getattr = known_object("torch._ops.OpOverloadPacket.__getattr__");
  if (!fallback || fallback == packet_getattr) return nullptr;
  if (!PyFunction_Check(fallback)) unknown_attribute(type, name, "its __getattr__ is not a function");
  return in.call(in.bind_descriptor(fallback, type, constant, getattr), arguments({in.constant(name)}));
}

Value* super_attr(Interpreter& in, SuperValue* super, PyObject* name) {
  in.guards.add_class(super->start_type);
  PyObject* mro = super->start_type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(super->type)) ++i;
  for (++i; i < n; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (Value* written = written_on_class(in, base, name)) return written;
    PyObject* found = look_up_own(base, name);
    if (!found) continue;
    if (!Py_TYPE(found)->tp_descr_get)
      if (Source* source = in.guards.class_item(base, name, found)) return in.wrap(found, source);
    auto* self = as<ConstantValue>(super->self);
    bool on_class = self && self->object.get() == reinterpret_cast<PyObject*>(super->start_type);
    return in.bind_descriptor(found, super->start_type, on_class ? nullptr : super->self, name);
  }
  return nullptr;
}

}  // namespace stator::capture
