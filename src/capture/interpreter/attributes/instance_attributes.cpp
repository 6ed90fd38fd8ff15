// Attributes of instances, by CPython's lookup rules.
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/attributes/thread_locals.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/shared_dicts.h"
#include "capture/pycompat/facts.h"

#include <structmember.h>

namespace stator::capture {
namespace {

bool holds_object(const PyMemberDef* member) { return member->type == T_OBJECT || member->type == T_OBJECT_EX; }

/// An item of the dict of a module or instance, read at a child of `dict_source`. Null, and guarded, if it is absent.
Value* dict_attr(Interpreter& in, PyObject* dict, Source* dict_source, PyObject* name) {
  PyObject* found = plain_item(dict, name);
  if (!found) {
    in.guards.add(dict_source, FactKind::Absent, name);
    return nullptr;
  }
  return in.wrap(found, in.guards.sources().child(dict_source, SourceKind::DictItem, 0, name, found));
}

/// The same for an external instance.
Value* own_attribute(Interpreter& in, ObjectValue* object, PyObject* name) {
  PyObject* instance = object->object.get();
  if (object->through_dict) {
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

bool is_attribute_error(Interpreter& in, const Raise& raised) {
  return is_exception(in, raised.exception, PyExc_AttributeError);
}

/// Calls the class's `__getattribute__`, or does the ordinary lookup.
Value* ordinary_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  PyTypeObject* type = object->type;
  PyObject* reader = look_up(type, getattribute);
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  const bool is_local = opens_thread_dict(in, object, reader);
  if (is_local && PyUnicode_Compare(name, dict_name) == 0) return object->own;
  if (is_local || wraps(reader, PyObject_GenericGetAttr) || type->tp_getattro == PyObject_GenericGetAttr)
    return generic_attr(in, object, name);
  if (!PyFunction_Check(reader)) unknown_attribute(type, name, "its class has its own __getattribute__");
  return in.call(in.bind_descriptor(reader, type, object, getattribute), arguments({in.constant(name)}));
}

/// A field of an external instance that a C class describes: only a value that the instance itself holds can be
/// guarded.
Value* native_field(Interpreter& in, ObjectValue* object, PyObject* descriptor, PyObject* name) {
  // The limit of a deque never changes.
  if (object->type == deque_type() && PyUnicode_CompareWithASCIIString(name, "maxlen") == 0) {
    in.guards.add(object->source, FactKind::Identity, object->object.get());
    return in.wrap_result(Ref::steal(PyObject_GenericGetAttr(object->object.get(), name)).get());
  }
  if (Py_TYPE(descriptor) != &PyMemberDescr_Type ||
      !holds_object(reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member))
    unknown_attribute(object->type, name, "a field that its class computes");
  Ref found = Ref::steal(PyObject_GenericGetAttr(object->object.get(), name));
  if (!found) {
    PyErr_Clear();
    in.guards.add(object->source, FactKind::NoField, name);
    return nullptr;
  }
  return in.wrap(found.get(),
                 in.guards.sources().child(object->source, SourceKind::Attribute, kClassField, name, found.get()));
}

/// Whether the class, or a base, has `__slots__`.
bool has_slots(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    if (!PyType_HasFeature(reinterpret_cast<PyTypeObject*>(base), Py_TPFLAGS_HEAPTYPE)) continue;
    PyObject* names = reinterpret_cast<PyHeapTypeObject*>(base)->ht_slots;
    if (names && PyTuple_GET_SIZE(names) > 0) return true;
  }
  return false;
}

}  // namespace

/// The instance's own value of the attribute, whatever its class has; null if there is none. Guarded in either case.
Value* held_attribute(Interpreter& in, PyObject* instance, Source* source, PyObject* name) {
  if (PyObject* found = stator_instance_value(instance, name))
    return in.wrap(found, in.guards.sources().child(source, SourceKind::Attribute, kOwnAttribute, name, found));
  in.guards.add(source, FactKind::NoAttribute, name);
  return nullptr;
}

void refuse_shared_dict(Interpreter& in, const Value* container) {
  PyObject *object = container->source->object.get(), *own = nullptr;
  if (stator_instance_dict(object, &own) != kStatorDictObject) return;
  if (const Value* other = in.objects.claim_dict_of_container(own, container))
    break_on_shared_dict(in.guards, container->source, own, other, "a container and another object share a __dict__");
}

Value* object_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  static PyObject* const module_getattr = known_object("torch.nn.Module.__getattr__");
  in.guards.add_class(object->type);
  PyObject* fallback = look_up(object->type, getattr);
  if (!fallback) return ordinary_attr(in, object, name);
  try {
    if (Value* found = ordinary_attr(in, object, name)) return found;
  } catch (const Raise& raised) {
    if (!is_attribute_error(in, raised)) throw;
  }
  if (fallback == module_getattr) return module_member(in, object, name);
  if (!is_accessor(fallback)) unknown_attribute(object->type, name, "its __getattr__ is not a function");
  return in.call(in.bind_descriptor(fallback, object->type, object, getattr), arguments({in.constant(name)}));
}

Source* instance_dict_source(Interpreter& in, Source* owner, PyObject* dict) {
  return in.guards.sources().child(owner, SourceKind::InstanceDict, 0, nullptr, dict);
}

/// What nn.Module.__getattr__ does: looks for parameters, then buffers, then submodules.
Value* module_member(Interpreter& in, ObjectValue* module, PyObject* name, DictValue** holder) {
  static PyObject* const tables[] = {PyUnicode_InternFromString("_parameters"), PyUnicode_InternFromString("_buffers"),
                                     PyUnicode_InternFromString("_modules")};
  for (PyObject* table : tables) {
    Value* value = own_attr(in, module, table);
    if (!value) continue;
    auto* dict = as<DictValue>(value);
    if (!dict) {
      // A subclass of dict may have its own lookup.
      Value* key = in.constant(name);
      if (!in.contains(value, key)) continue;
      if (holder) throw Break{BreakId::mutation, "a member of a module whose tables are not plain dicts"};
      return in.get_item(value, key);
    }
    Value* found = dict->external && !dict->mutated ? dict_attr(in, dict->external.get(), dict->source, name)
                                                    : in.dict_get(dict, in.constant(name));
    if (found && holder) *holder = dict;
    if (found) return found;
  }
  return nullptr;
}

Value* own_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  if (object->object && object->own) return in.dict_get(object->own, in.constant(name));
  if (Value** written = object->find(name)) return *written;
  return object->object ? own_attribute(in, object, name) : nullptr;
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
  // From here on the attributes of the instance are the items of the dict; only slots stay where they are.
  object->own = dict;
  for (auto& [name, value] : std::exchange(object->attributes, {})) {
    PyObject* on_class = look_up_attribute(object->type, name.get());
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
  PyObject* on_class = look_up_attribute(type, name);
  static PyObject* const own_class = look_up(&PyBaseObject_Type, class_name);
  if (on_class == own_class) return in.constant(reinterpret_cast<PyObject*>(type));
  // Without a `__dict__` on the class there is no dict; a property of that name is called like any other.
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
    // A slot that was never assigned has no value. Fields of C classes always have one.
    PyTypeObject* definer = reinterpret_cast<PyDescrObject*>(on_class)->d_type;
    if (kind == &PyMemberDescr_Type && (definer->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
    unknown_attribute(type, name, "a field that its class computes");
  }
  if (Value* own = own_attr(in, object, name)) return own;
  if (Value* written = written_class_attr(in, type, name)) return written;
  return on_class ? in.bind_descriptor(on_class, type, object, name) : nullptr;
}

}  // namespace stator::capture
