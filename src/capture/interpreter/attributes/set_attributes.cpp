// Attribute writes and deletions, by CPython's rules.
#include "capture/interpreter/attributes/set_attributes.h"

#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/function_attributes.h"
#include "capture/interpreter/attributes/thread_locals.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/text.h"

#include <structmember.h>

#include <algorithm>

namespace stator::capture {
namespace {

/// Calls `__set__` or `__delete__` of a descriptor class written in Python; false if it has none.
bool call_descriptor(Interpreter& in, PyObject* descriptor, const char* method, std::vector<Value*> rest) {
  PyTypeObject* type = Py_TYPE(descriptor);
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  PyObject* found = look_up(type, name.get());
  if (!found || !PyFunction_Check(found)) return false;
  in.guards.add_class(type);
  Value* self = in.wrap(descriptor, in.guards.sources().pinned(descriptor, type->tp_name));
  in.call(in.bind_descriptor(found, type, self, name.get()), arguments(std::move(rest)));
  return true;
}

/// Calls a property's setter or deleter on the object; false if it has none.
bool call_property(Interpreter& in, PyObject* property, const char* part, std::vector<Value*> args) {
  Ref function = Ref::steal(PyObject_GetAttrString(property, part));
  if (!function || function.get() == Py_None) return false;
  in.call(in.wrap(function.get(), in.guards.sources().pinned(function.get(), part)), arguments(std::move(args)));
  return true;
}

/// Raises the error of a property that has no such function. The real property makes the message, which names it and
/// the class.
[[noreturn]] void refused_property(Interpreter& in, ObjectValue* object, PyObject* property, PyObject* value) {
  static PyObject* const finalizer = PyUnicode_InternFromString("__del__");
  Ref instance = object->object;
  if (!instance && native_base(object->type) == &PyBaseObject_Type && !look_up(object->type, finalizer)) {
    Ref none = Ref::steal(PyTuple_New(0));
    instance = Ref::steal(PyBaseObject_Type.tp_new(object->type, none.get(), nullptr));
    PyErr_Clear();
  }
  if (!instance || PyProperty_Type.tp_descr_set(property, instance.get(), value) == 0)
    throw Break{BreakId::raises, "a property that cannot be written"};
  raise_current(in);
}

/// Whether the instance has a `__dict__`.
bool has_dict(ObjectValue* object) {
  if (object->object && object->own) return true;
  if (object->object) return _PyObject_GetDictPtr(object->object.get()) || object->type->tp_dictoffset;
  return object->type->tp_dictoffset != 0 || (object->type->tp_flags & Py_TPFLAGS_MANAGED_DICT);
}

/// Whether the class has a slot (`__slots__`) of this name.
bool is_slot(const ObjectValue* object, PyObject* name) {
  PyObject* on_class = look_up_attribute(object->type, name);
  return on_class && Py_TYPE(on_class) == &PyMemberDescr_Type;
}

void store(Interpreter& in, ObjectValue* object, PyObject* name, Value* to) {
  if (!object->object && !object->own) object->own = in.dict();
  // An instance that the program made keeps slots and dict in one: reading its `__dict__` breaks if its class has
  // slots.
  if (object->own && !(object->object && is_slot(object, name))) {
    in.dict_set(object->own, in.constant(name), to);
    in.mutated(object->own);
    return;
  }
  if (Value** written = object->find(name)) {
    *written = to;
  } else {
    in.lifetimes.drop_attribute(object->object.get(), object->source, name);
    object->attributes.push_back({Ref::borrow(name), to});
  }
  in.effects.add({EffectKind::SetAttr, object, in.constant(name), to});
}

/// Whether the submodule is stored under this name already, and storing it again has no effect.
bool is_stored(Interpreter& in, ObjectValue* module, PyObject* name, Value* to, Value* known, DictValue* holder) {
  static PyObject* const modules = PyUnicode_InternFromString("_modules");
  static PyObject* const transient = PyUnicode_InternFromString("_non_persistent_buffers_set");
  static PyObject* const hooks = known_object("torch.nn.modules.module._global_module_registration_hooks");
  if (known != to || holder != own_attr(in, module, modules) || own_attr(in, module, name)) return false;
  Value* buffers = own_attr(in, module, transient);
  if (!buffers || in.contains(buffers, in.constant(name))) return false;
  return *in.length_of(in.wrap(hooks, in.guards.sources().pinned(hooks, "_global_module_registration_hooks"))) == 0;
}

/// Sets an attribute of an OrderedDict; false if its class decides otherwise.
bool set_dict_attr(Interpreter& in, DictValue* dict, PyObject* name, Value* to) {
  if (dict->type != ordered_dict_type() || look_up_attribute(dict->type, name)) return false;
  in.effects.refuse_frozen(dict);
  if (dict->source) refuse_shared_dict(in, dict);
  ConstantValue* key = in.constant(name);
  if (!dict->own) dict->own = in.dict();
  if (dict->external && !in.dict_get(dict->own, key))
    in.lifetimes.drop_attribute(dict->external.get(), dict->source, name);
  in.dict_set(dict->own, key, to);
  in.effects.note_change();
  if (dict->external) in.effects.add({EffectKind::SetAttr, dict, key, to});
  return true;
}

enum class Stored : uint8_t { Member, Plain, No };

/// What nn.Module.__setattr__ does on an external module in the usual cases: stores a buffer, or a submodule that is
/// there already. `Plain`: it is an ordinary attribute. `No`: the method itself must be interpreted.
Stored store_member(Interpreter& in, ObjectValue* module, PyObject* name, Value* to) {
  auto* tensor = as<TensorValue>(to);
  bool is_module = to->kind == Kind::Object && PyType_IsSubtype(in.type_of(to), module_class());
  bool is_parameter = tensor && tensor->type == TorchTracer::parameter_type();
  DictValue* holder = nullptr;
  Value* known = module_member(in, module, name, &holder);
  if (is_module && known && is_stored(in, module, name, to, known, holder)) return Stored::Member;
  if (is_module || is_parameter) return Stored::No;
  if (!known) return Stored::Plain;
  static PyObject* const buffers = PyUnicode_InternFromString("_buffers");
  bool is_buffer = holder == own_attr(in, module, buffers);
  if (!is_buffer || !(tensor || in.is_same(to, in.none()))) return Stored::No;
  // Registration hooks would be called.
  static PyObject* const hooks = known_object("torch.nn.modules.module._global_buffer_registration_hooks");
  Value* registered = in.wrap(hooks, in.guards.sources().pinned(hooks, "_global_buffer_registration_hooks"));
  if (*in.length_of(registered) > 0) return Stored::No;
  in.dict_set(holder, in.constant(name), to);
  in.mutated(holder);
  return Stored::Member;
}

/// Sets a data attribute of a class. Writing a method is a break: too many caches and slots depend on methods.
void set_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name, Value* to) {
  if (Prototype* prototype = in.prototypes.find(reinterpret_cast<PyObject*>(type))) {
    static PyObject* const setattr = PyUnicode_InternFromString("__setattr__");
    PyTypeObject* meta = Py_TYPE(type);
    if (meta->tp_setattro == PyType_Type.tp_setattro) return set_prototype_attr(in, *prototype, name, to);
    Value* writer = in.bind_descriptor(look_up(meta, setattr), meta, in.constant(prototype->object), setattr);
    in.call(writer, arguments({in.constant(name), to}));
    return;
  }
  in.guards.add_class(type);
  PyObject* present = look_up_attribute(type, name);
  bool plain = Py_TYPE(type)->tp_setattro == PyType_Type.tp_setattro && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
               !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && !look_up_attribute(Py_TYPE(type), name);
  auto is_descriptor = [](PyTypeObject* of) { return of->tp_descr_get || of->tp_descr_set; };
  auto* instance = as<ObjectValue>(to);
  auto* made = as<OpaqueValue>(to);
  const bool is_number = made && made->number;         // a number that varies from call to call
  const bool is_kept = !instance || instance->object;  // other code also holds it, so the class is not its only owner
  bool data = is_kept && (is_number || !is_descriptor(in.type_of(to))) &&
              !(present && is_descriptor(Py_TYPE(present))) && name_text(name).rfind("__", 0) != 0;
  if (!plain || !data) throw Break{BreakId::mutation, "attribute '" + name_text(name) + "' of a class"};
  if (in.objects.contains(type->tp_dict))
    throw Break{BreakId::mutation, "a class that was looked through is written to"};
  if (!written_on_class(in, type, name)) in.lifetimes.drop(look_up_own(type, name));
  ConstantValue* key = in.constant(name);
  auto& written = in.effects.classes_written[type];
  written.insert(written.begin(), {key->object.get(), to});
  in.effects.add({EffectKind::SetAttr, in.constant(reinterpret_cast<PyObject*>(type)), key, to});
}

}  // namespace

void refuse_written_class(Interpreter& in, PyObject* names) {
  for (auto& [written, unused] : in.effects.classes_written)
    if (written->tp_dict == names) throw Break{BreakId::mutation, "a class that was written to is looked through"};
}

Value* written_on_class(Interpreter& in, PyTypeObject* type, PyObject* name) {
  auto found = in.effects.classes_written.find(type);
  if (found != in.effects.classes_written.end())
    for (auto& [key, value] : found->second)
      if (PyUnicode_Compare(key, name) == 0) return value;
  return nullptr;
}

Value* written_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name) {
  if (in.effects.classes_written.empty()) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (Value* written = written_on_class(in, base, name)) return written;
    if (look_up_own(base, name)) return nullptr;
  }
  return nullptr;
}

/// No attribute of a literal can be written: raises CPython's error.
static void raise_for_literal(Interpreter& in, Value* value, PyObject* name, PyObject* to) {
  static PyTypeObject* const types[] = {&PyLong_Type,  &PyFloat_Type, &PyBool_Type,    &PyUnicode_Type,
                                        &PyBytes_Type, &PyTuple_Type, &PyComplex_Type, Py_TYPE(Py_None)};
  auto* constant = as<ConstantValue>(value);
  if (!constant || std::ranges::find(types, Py_TYPE(constant->object.get())) == std::end(types)) return;
  if (PyObject_SetAttr(in.constant_of(constant), name, to) < 0) raise_current(in);
}

void Interpreter::set_attr(Value* value, PyObject* name, Value* to) {
  static PyObject* const setattr = PyUnicode_InternFromString("__setattr__");
  static PyObject* const module_setattr = known_object("torch.nn.Module.__setattr__");
  value = unproxied(*this, value);
  if (auto* function = as<FunctionValue>(value)) return set_function_attr(*this, function, name, to);
  if (auto* tensor = as<TensorValue>(value)) return set_tensor_attribute(*this, tensor, name, to);
  if (auto* constant = as<ConstantValue>(value);
      constant && PyModule_Check(constant->object.get()) && Py_TYPE(constant->object.get()) == &PyModule_Type)
    return store_global(*this, PyModule_GetDict(constant_of(constant)), name, to);
  if (auto* constant = as<ConstantValue>(value); constant && PyType_Check(constant->object.get()))
    return set_class_attr(*this, reinterpret_cast<PyTypeObject*>(constant_of(constant)), name, to);
  if (auto* dict = as<DictValue>(value); dict && set_dict_attr(*this, dict, name, to)) return;
  auto* object = as<ObjectValue>(value);
  raise_for_literal(*this, value, name, Py_None);
  if (!object)
    throw Break{BreakId::mutation, "attribute '" + name_text(name) + "' of a " + std::string(type_of(value)->tp_name)};
  guards.add_class(object->type);
  PyObject* writer = look_up(object->type, setattr);
  Stored stored = object->type->tp_setattro == PyObject_GenericSetAttr ? Stored::Plain : Stored::No;
  if (writer == module_setattr && object->object) stored = store_member(*this, object, name, to);
  if (stored == Stored::Member) return;
  if (stored == Stored::No) {
    if (wraps(writer, PyObject_GenericSetAttr) || opens_thread_dict(*this, object, writer))
      return plain_set_attr(*this, object, name, to);
    if (!is_accessor(writer)) throw Break{BreakId::mutation, "a class with its own __setattr__"};
    call(bind_descriptor(writer, object->type, object, setattr), arguments({constant(name), to}));
    return;
  }
  plain_set_attr(*this, object, name, to);
}

void plain_set_attr(Interpreter& in, ObjectValue* object, PyObject* name, Value* to) {
  in.effects.refuse_frozen(object);
  PyObject* on_class = look_up_attribute(object->type, name);
  if (!on_class || !is_data_descriptor(on_class)) {
    if (!has_dict(object)) {
      if (!on_class && !written_class_attr(in, object->type, name)) raise_no_attribute(in, object, name);
      in.raise(PyExc_AttributeError, "'" + std::string(object->type->tp_name) + "' object attribute '" +
                                         exact_text_of(name) + "' is read-only");
    }
    return store(in, object, name, to);
  }
  PyTypeObject* kind = Py_TYPE(on_class);
  if (kind == &PyProperty_Type) {
    if (!call_property(in, on_class, "fset", {object, to})) refused_property(in, object, on_class, Py_None);
  } else if (is_exception_class(object->type) && (kind == &PyGetSetDescr_Type || kind == &PyMemberDescr_Type)) {
    if (!set_exception_field(in, object, name, to))
      throw Break{BreakId::mutation, "attribute '" + name_text(name) + "' of an exception"};
  } else if (kind == &PyMemberDescr_Type) {
    if (reinterpret_cast<PyMemberDescrObject*>(on_class)->d_member->flags & READONLY)
      in.raise(PyExc_AttributeError, "readonly attribute");
    store(in, object, name, to);
  } else if (!call_descriptor(in, on_class, "__set__", {object, to})) {
    throw Break{BreakId::mutation, "attribute '" + name_text(name) + "' through a descriptor"};
  }
}

void Interpreter::del_attr(Value* value, PyObject* name) {
  static PyObject* const delattr = PyUnicode_InternFromString("__delattr__");
  static PyObject* const module_delattr = known_object("torch.nn.Module.__delattr__");
  value = unproxied(*this, value);
  auto* object = as<ObjectValue>(value);
  auto* known = as<ConstantValue>(value);
  Prototype* prototype = known ? prototypes.find(known->object.get()) : nullptr;
  if (prototype && PyType_Check(known->object.get()) &&
      Py_TYPE(known->object.get())->tp_setattro == PyType_Type.tp_setattro)
    return set_prototype_attr(*this, *prototype, name, nullptr);
  raise_for_literal(*this, value, name, nullptr);
  if (!object) throw Break{BreakId::mutation, "del of attribute '" + name_text(name) + "'"};
  guards.add_class(object->type);
  PyObject* deleter = look_up(object->type, delattr);
  if (object->type->tp_setattro == PyObject_GenericSetAttr) return plain_del_attr(*this, object, name);
  if (wraps(deleter, PyObject_GenericSetAttr) || opens_thread_dict(*this, object, deleter))
    return plain_del_attr(*this, object, name);
  if (!is_accessor(deleter) || (deleter == module_delattr && object->object))
    throw Break{BreakId::mutation, "a class with its own __delattr__"};
  call(bind_descriptor(deleter, object->type, object, delattr), arguments({constant(name)}));
}

void plain_del_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  in.effects.refuse_frozen(object);
  PyObject* on_class = look_up_attribute(object->type, name);
  if (on_class && is_data_descriptor(on_class) && Py_TYPE(on_class) != &PyMemberDescr_Type) {
    if (Py_TYPE(on_class) == &PyProperty_Type) {
      if (!call_property(in, on_class, "fdel", {object})) refused_property(in, object, on_class, nullptr);
    } else if (!call_descriptor(in, on_class, "__delete__", {object})) {
      throw Break{BreakId::mutation, "del of attribute '" + name_text(name) + "' through a descriptor"};
    }
    return;
  }
  const bool is_slot = on_class && Py_TYPE(on_class) == &PyMemberDescr_Type && object->object;
  if (!object->object && !object->own) raise_no_attribute(in, object, name);
  if (object->own && !is_slot) {
    if (!in.dict_delete(object->own, in.constant(name))) raise_no_attribute(in, object, name);
    in.mutated(object->own);
    return;
  }
  // Only what the instance itself holds can be deleted.
  if (is_slot && !generic_attr(in, object, name)) in.raise(PyExc_AttributeError, exact_text_of(name));
  if (!is_slot && !own_attr(in, object, name)) raise_no_attribute(in, object, name);
  if (Value** written = object->find(name)) {
    *written = nullptr;
  } else {
    in.lifetimes.drop_attribute(object->object.get(), object->source, name);
    object->attributes.push_back({Ref::borrow(name), nullptr});
  }
  in.effects.add({EffectKind::DelAttr, object, in.constant(name), nullptr});
}

}  // namespace stator::capture
