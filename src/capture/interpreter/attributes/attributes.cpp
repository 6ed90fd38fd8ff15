// Attribute reads, by CPython's own lookup rules and without running user code outside the capture.
#include "capture/interpreter/attributes/attributes.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/class_attributes.h"
#include "capture/interpreter/attributes/function_attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/attributes/thread_locals.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/numbers.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/interpreter/weak_references.h"
#include "capture/pycompat/facts.h"

#include <structmember.h>

namespace stator::capture {
namespace {

bool holds_object(const PyMemberDef* member) { return member->type == T_OBJECT || member->type == T_OBJECT_EX; }

/// An item of the module's or instance's own dict; `dict_source` guards it. Null (and guarded) if absent.
Value* dict_attr(Interpreter& in, PyObject* dict, Source* dict_source, PyObject* name) {
  PyObject* found = plain_item(dict, name);
  if (!found) {
    in.guard(dict_source, FactKind::Absent, name);
    return nullptr;
  }
  return in.wrap(found, in.sources().child(dict_source, SourceKind::DictItem, 0, name, found));
}

/// What an instance holds under this name beside its class, or null. Guards what it found, or that there was nothing.
Value* held_attribute(Interpreter& in, PyObject* instance, Source* source, PyObject* name) {
  if (PyObject* found = stator_instance_value(instance, name))
    return in.wrap(found, in.sources().child(source, SourceKind::Attribute, kOwnAttribute, name, found));
  in.guard(source, FactKind::NoAttribute, name);
  return nullptr;
}

/// The same of an outside instance whose dict may be known by its identity.
Value* own_attribute(Interpreter& in, ObjectValue* object, PyObject* name) {
  PyObject* instance = object->object.get();
  if (object->pinned) {
    PyObject** slot = _PyObject_GetDictPtr(instance);
    if (!slot) return nullptr;
    if (!*slot) {
      Ref made = Ref::steal(PyObject_GenericGetDict(instance, nullptr));
      if (!made) {
        PyErr_Clear();
        return nullptr;
      }
      slot = _PyObject_GetDictPtr(instance);
    }
    return dict_attr(in, *slot, instance_dict_source(in, object->source, *slot), name);
  }
  return held_attribute(in, instance, object->source, name);
}

/// The index that a field of a named tuple's class stands for; below 0: it is no such descriptor.
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

bool is_attribute_error(Interpreter& in, const Raise& raised) {
  return is_exception(in, raised.exception, PyExc_AttributeError);
}

/// `__getattribute__` of the class, or the ordinary lookup.
Value* ordinary_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  PyTypeObject* type = object->type;
  PyObject* reader = _PyType_Lookup(type, getattribute);
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  const bool is_local = opens_thread_dict(in, object, reader);
  if (is_local && PyUnicode_Compare(name, dict_name) == 0) return object->own;
  if (is_local || wraps(reader, PyObject_GenericGetAttr) || type->tp_getattro == PyObject_GenericGetAttr)
    return generic_attr(in, object, name);
  if (!PyFunction_Check(reader)) unknown_attribute(type, name, "its class has its own __getattribute__");
  return in.call(in.bind_descriptor(reader, type, object, getattribute), arguments({in.constant(name)}));
}

Value* object_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  static PyObject* const module_getattr = known_object("torch.nn.Module.__getattr__");
  in.guard_class(object->type);
  PyObject* fallback = _PyType_Lookup(object->type, getattr);
  if (!fallback) return ordinary_attr(in, object, name);
  try {
    if (Value* found = ordinary_attr(in, object, name)) return found;
  } catch (const Raise& raised) {
    if (!is_attribute_error(in, raised)) throw;
  }
  if (fallback == module_getattr) return module_member(in, object, name);
  if (!is_accessor(fallback)) unknown_attribute(object->type, name, "its __getattr__ is no function");
  return in.call(in.bind_descriptor(fallback, object->type, object, getattr), arguments({in.constant(name)}));
}

/// A field that a C class describes, of an instance from outside: only what the instance itself holds can be guarded.
Value* native_field(Interpreter& in, ObjectValue* object, PyObject* descriptor, PyObject* name) {
  // What a deque may hold is fixed when it is made.
  if (object->type == deque_type() && PyUnicode_CompareWithASCIIString(name, "maxlen") == 0) {
    in.guard(object->source, FactKind::Identity, object->object.get());
    return in.wrap_result(Ref::steal(PyObject_GenericGetAttr(object->object.get(), name)).get());
  }
  if (Py_TYPE(descriptor) != &PyMemberDescr_Type ||
      !holds_object(reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member))
    unknown_attribute(object->type, name, "a field that its class computes");
  Ref found = Ref::steal(PyObject_GenericGetAttr(object->object.get(), name));
  if (!found) {
    PyErr_Clear();
    in.guard(object->source, FactKind::NoField, name);
    return nullptr;
  }
  return in.wrap(found.get(),
                 in.sources().child(object->source, SourceKind::Attribute, kClassField, name, found.get()));
}

}  // namespace

std::string text_of(PyObject* name) {
  const char* chars = PyUnicode_AsUTF8(name);
  return chars ? chars : "?";
}

void unknown_attribute(PyTypeObject* type, PyObject* name, const char* why) {
  throw Break{BreakId::unknown_attribute, std::string(type->tp_name) + "." + text_of(name) + ": " + why};
}

Source* instance_dict_source(Interpreter& in, Source* owner, PyObject* dict) {
  return in.sources().child(owner, SourceKind::InstanceDict, 0, nullptr, dict);
}

/// nn.Module.__getattr__ done natively: parameters, buffers, then submodules.
Value* module_member(Interpreter& in, ObjectValue* module, PyObject* name, DictValue** holder) {
  static PyObject* const tables[] = {PyUnicode_InternFromString("_parameters"), PyUnicode_InternFromString("_buffers"),
                                     PyUnicode_InternFromString("_modules")};
  for (PyObject* table : tables) {
    Value* value = own_attr(in, module, table);
    if (!value) continue;
    auto* dict = as<DictValue>(value);
    if (!dict) {
      // A class of its own may look up otherwise.
      Value* key = in.constant(name);
      if (!in.contains(value, key)) continue;
      if (holder) throw Break{BreakId::mutation, "a member of a module whose tables are of a class of their own"};
      return in.get_item(value, key);
    }
    Value* found = dict->outside && !dict->mutated ? dict_attr(in, dict->outside.get(), dict->source, name)
                                                   : in.dict_get(dict, in.constant(name));
    if (found && holder) *holder = dict;
    if (found) return found;
  }
  return nullptr;
}

/// Attributes of tuples, lists, dicts, sets, slices, iterators and literals: methods of the built-in class.
Value* builtin_instance_attr(Interpreter& in, Value* value, PyObject* name) {
  PyTypeObject* type = in.type_of(value);
  PyObject* on_class = _PyType_Lookup(type, name);
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
    // The field's position: read it from a tuple of that class that holds its own indices.
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
  // An OrderedDict may have attributes.
  if (auto* dict = as<DictValue>(value); dict && dict->own)
    if (Value* written = in.dict_get(dict->own, in.constant(name))) return written;
  if (value->source && type->tp_dictoffset != 0 && !(on_class && is_data_descriptor(on_class)))
    if (Value* own = held_attribute(in, value->source->object.get(), value->source, name)) return own;
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

Value* own_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  if (object->object && object->own) return in.dict_get(object->own, in.constant(name));
  if (Value** written = object->find(name)) return *written;
  return object->object ? own_attribute(in, object, name) : nullptr;
}

/// Whether instances keep some of their attributes beside their dict.
static bool has_slots(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    if (!PyType_HasFeature(reinterpret_cast<PyTypeObject*>(base), Py_TPFLAGS_HEAPTYPE)) continue;
    PyObject* names = reinterpret_cast<PyHeapTypeObject*>(base)->ht_slots;
    if (names && PyTuple_GET_SIZE(names) > 0) return true;
  }
  return false;
}

Value* instance_dict(Interpreter& in, ObjectValue* object) {
  if (!object->object && has_slots(object->type))
    throw Break{BreakId::unknown_attribute, "__dict__ of an instance that has slots, too"};
  if (!object->own && !object->object) object->own = in.dict();
  if (!object->own) {
    PyObject** slot = _PyObject_GetDictPtr(object->object.get());
    if (slot && !*slot) Ref::steal(PyObject_GenericGetDict(object->object.get(), nullptr));
    if (!slot || !*slot) unknown_attribute(object->type, PyUnicode_InternFromString("__dict__"), "there is none");
    Value* shown = in.wrap(*slot, instance_dict_source(in, object->source, *slot));
    if (shown == object) return object;
    adopt_dict(in, object, as<DictValue>(shown));
  }
  return object->own;
}

void adopt_dict(Interpreter& in, ObjectValue* object, DictValue* dict) {
  // From here on the dict stands for the instance's attributes.
  object->own = dict;
  for (auto& [name, value] : std::exchange(object->attributes, {})) {
    PyObject* on_class = _PyType_Lookup(object->type, name.get());
    if (on_class && is_data_descriptor(on_class))
      object->attributes.push_back({name, value});  // a slot
    else if (value)
      in.dict_set(dict, in.constant(name), value);
    else
      in.dict_delete(dict, in.constant(name));
  }
  if (dict->mutated) in.mutated(dict);
}

Value* generic_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  PyTypeObject* type = object->type;
  PyObject* on_class = _PyType_Lookup(type, name);
  static PyObject* const own_class = _PyType_Lookup(&PyBaseObject_Type, class_name);
  if (on_class == own_class) return in.constant(reinterpret_cast<PyObject*>(type));
  // Instances without a dict have none to show; a class may have its own idea of it.
  if (PyUnicode_Compare(name, dict_name) == 0 && on_class && Py_TYPE(on_class) != &PyProperty_Type)
    return instance_dict(in, object);

  if (on_class && is_data_descriptor(on_class) && Py_TYPE(on_class)->tp_descr_get) {
    PyTypeObject* kind = Py_TYPE(on_class);
    if (kind != &PyMemberDescr_Type && kind != &PyGetSetDescr_Type)
      return in.bind_descriptor(on_class, type, object, name);
    if (Value** written = object->find(name)) return *written;
    if (is_exception_class(type))
      if (Value* field = exception_field(in, object, name)) return field;
    if (object->object) return native_field(in, object, on_class, name);
    // A slot that the program never filled; what a class in C describes is there.
    PyTypeObject* definer = reinterpret_cast<PyDescrObject*>(on_class)->d_type;
    if (kind == &PyMemberDescr_Type && (definer->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
    unknown_attribute(type, name, "a field that its class computes");
  }
  if (Value* own = own_attr(in, object, name)) return own;
  if (Value* written = written_class_attr(in, type, name)) return written;
  return on_class ? in.bind_descriptor(on_class, type, object, name) : nullptr;
}

/// Whether a class that the program made has it, and not one of its bases from outside.
static bool is_of_prototype(Interpreter& in, PyObject* descriptor, PyTypeObject* owner, PyObject* name) {
  if (in.prototypes.empty()) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(owner->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(owner->tp_mro, i);
    PyObject* names = in.prototypes.find(base) ? reinterpret_cast<PyTypeObject*>(base)->tp_dict : nullptr;
    if (names && PyDict_GetItemWithError(names, name) == descriptor) return true;
  }
  return false;
}

/// A part of a prototype that never changes needs no place to be read from, which might be gone by then.
static Value* part_of_prototype(Interpreter& in, PyObject* part) {
  if (Value* value = in.prototypes.value_of(part)) return value;
  return is_literal(part) || is_known_by_identity(part) ? in.constant(part) : nullptr;
}

Value* Interpreter::bind_descriptor(PyObject* descriptor, PyTypeObject* owner, Value* self, PyObject* name) {
  PyTypeObject* type = Py_TYPE(descriptor);
  const bool is_own = is_of_prototype(*this, descriptor, owner, name);
  auto pinned = [&](PyObject* object) {
    Value* part = is_own ? part_of_prototype(*this, object) : nullptr;
    if (part) return part;
    return wrap(object, sources_->pinned(object, (std::string(owner->tp_name) + "." + text_of(name)).c_str()));
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
  // Subclasses of property that leave its __get__ alone, too.
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
    // By the descriptor and not by name: super() found it behind another one.
    return constant(Ref::steal(type->tp_descr_get(descriptor, nullptr, reinterpret_cast<PyObject*>(owner))));
  }
  if (PyCFunction_Check(descriptor)) return constant(descriptor);
  if (Py_ssize_t field = self ? tuple_field(descriptor) : -1; field >= 0) {
    SequenceValue* items = list_part(self);
    if (items && field < static_cast<Py_ssize_t>(items->items.size())) return item(items, field);
  }
  if (auto* tensor = as<TensorValue>(self); tensor && type == &PyGetSetDescr_Type)
    return tensor_field(*this, tensor, name);
  if (!type->tp_descr_get) return pinned(descriptor);
  static PyObject* const cached_property = known_object("functools.cached_property");
  auto* owner_object = as<ObjectValue>(self);
  if (reinterpret_cast<PyObject*>(type) == cached_property && owner_object) {
    // The instance's own dict has no value yet. (The class's own way takes a lock.)
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
  PyObject* getter = _PyType_Lookup(type, get);
  if (getter && PyFunction_Check(getter)) {
    guard_class(type);
    CallArgs args;
    args.positional = {self ? self : none(), constant(reinterpret_cast<PyObject*>(owner))};
    return call(bind_descriptor(getter, type, pinned(descriptor), get), std::move(args));
  }
  if (!self && is_known_by_identity(descriptor)) return constant(descriptor);
  if (type == lru_cache_type() || is_transparent(type)) {
    Value* function = pinned(descriptor);
    return self ? arena.make<MethodValue>(function, self) : function;
  }
  unknown_attribute(owner, name, "a descriptor of a kind that is not modelled");
}

/// What the class of bound methods has comes first; all else is the function's.
static Value* method_attr(Interpreter& in, MethodValue* method, PyObject* name) {
  auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  PyTypeObject* type = in.type_of(method);
  if (is("__self__")) return method->self;
  if (is("__func__") && type == &PyMethod_Type) return method->function;
  if (is("__class__")) return in.constant(reinterpret_cast<PyObject*>(type));
  PyObject* on_class = _PyType_Lookup(type, name);
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
      throw Break{BreakId::unknown_attribute, text_of(name)};
    case Kind::Number:
    case Kind::Text:
      needs_number("is asked for its attribute " + text_of(name));
    default:
      return builtin_instance_attr(*this, value, name);
  }
}

void raise_no_attribute(Interpreter& in, Value* value, PyObject* name) {
  PyObject* object = value->kind == Kind::Constant ? in.constant_of(value) : nullptr;
  std::string owner = "'" + std::string(in.type_of(value)->tp_name) + "' object";
  if (object && PyModule_Check(object))
    owner = "module '" + std::string(PyModule_GetName(object)) + "'";
  else if (object && PyType_Check(object))
    owner = "type object '" + std::string(reinterpret_cast<PyTypeObject*>(object)->tp_name) + "'";
  else if (value->kind == Kind::Super)
    owner = "'super' object";
  in.raise(PyExc_AttributeError, owner + " has no attribute '" + text_of(name) + "'");
}

Value* Interpreter::get_attr(Value* value, PyObject* name) {
  if (Value* found = find_attr(value, name)) return found;
  raise_no_attribute(*this, value, name);
}

/// What the language says of an instance without such a method, where it says the same wherever that is asked for.
static void raise_without(Interpreter& in, Value* object, PyObject* method) {
  struct Row {
    const char *method, *words;
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
      in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object " + row.words);
}

Value* type_method(Interpreter& in, Value* object, PyObject* name) {
  PyTypeObject* type = in.type_of(object);
  in.guard_class(type);
  PyObject* found = _PyType_Lookup(type, name);
  if (!found) raise_without(in, object, name);
  if (found == Py_None && PyUnicode_CompareWithASCIIString(name, "__iter__") == 0)
    in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
  if (!found) throw Break{BreakId::raises, "a '" + std::string(type->tp_name) + "' object has no " + text_of(name)};
  return in.bind_descriptor(found, type, object, name);
}

}  // namespace stator::capture
