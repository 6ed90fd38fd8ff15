// Attribute reads and writes, by CPython's own lookup rules and without running user code outside the capture.
#include "capture/guards/literals.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/tensor_attributes.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

std::string text_of(PyObject* name) {
  const char* chars = PyUnicode_AsUTF8(name);
  return chars ? chars : "?";
}

[[noreturn]] void unknown(PyTypeObject* type, PyObject* name, const char* why) {
  throw Break{BreakId::unknown_attribute, std::string(type->tp_name) + "." + text_of(name) + ": " + why};
}

bool is_data_descriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }

/// An item of the module's or instance's own dict; `dict_source` guards it. Null (and guarded) if absent.
Value* dict_attr(Interpreter& in, PyObject* dict, Source* dict_source, PyObject* name) {
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (!found) {
    PyErr_Clear();
    in.guard(dict_source, FactKind::Absent, name);
    return nullptr;
  }
  return in.wrap(found, in.sources().child(dict_source, SourceKind::DictItem, 0, name, found));
}

Source* instance_dict_source(Interpreter& in, Source* owner, PyObject* dict) {
  return in.sources().child(owner, SourceKind::InstanceDict, 0, nullptr, dict);
}

/// Own attribute of an outside instance, or null. Guards what it found, or that there was nothing.
Value* own_attribute(Interpreter& in, ObjectValue* object, PyObject* name, PyObject* on_class) {
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
  if (PyObject* found = stator_instance_value(instance, name))
    return in.wrap(found, in.sources().child(object->source, SourceKind::Attribute, kOwnAttribute, name, found));
  in.guard(object->source, FactKind::NoAttribute, name);
  return nullptr;
}

/// nn.Module.__getattr__ done natively: parameters, buffers, then submodules.
Value* module_member(Interpreter& in, ObjectValue* module, PyObject* name) {
  static PyObject* const tables[] = {PyUnicode_InternFromString("_parameters"), PyUnicode_InternFromString("_buffers"),
                                     PyUnicode_InternFromString("_modules")};
  for (PyObject* table : tables) {
    Value* value = module->find(table) ? *module->find(table) : own_attribute(in, module, table, nullptr);
    auto* dict = as<DictValue>(value);
    if (!dict) continue;
    if (dict->outside && !dict->mutated) {
      if (Value* found = dict_attr(in, dict->outside.get(), dict->source, name)) return found;
    } else if (Value* found = in.dict_get(dict, in.constant(name))) {
      return found;
    }
  }
  return nullptr;
}

/// What `__getattr__` of the class answers when the ordinary lookup found nothing; null if it has none.
Value* fallback_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  static PyObject* const module_getattr = known_object("torch.nn.Module.__getattr__");
  PyObject* fallback = _PyType_Lookup(object->type, getattr);
  if (!fallback) return nullptr;
  if (fallback == module_getattr) return module_member(in, object, name);
  if (!PyFunction_Check(fallback)) unknown(object->type, name, "its __getattr__ is no Python function");
  CallArgs args;
  args.positional = {in.constant(name)};
  return in.call(in.bind_descriptor(fallback, object->type, object, getattr), std::move(args));
}

bool is_attribute_error(Interpreter& in, const Raise& raised) {
  return PyType_IsSubtype(in.type_of(raised.exception), reinterpret_cast<PyTypeObject*>(PyExc_AttributeError));
}

Value* object_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  static PyObject* const object_getattribute = known_object("builtins.object.__getattribute__");
  PyTypeObject* type = object->type;
  in.guard_class(type);
  PyObject* reader = _PyType_Lookup(type, getattribute);
  if (reader == object_getattribute || type->tp_getattro == PyObject_GenericGetAttr) {
    if (Value* found = generic_attr(in, object, name)) return found;
  } else {
    if (!PyFunction_Check(reader)) unknown(type, name, "its class has its own __getattribute__");
    CallArgs args;
    args.positional = {in.constant(name)};
    try {
      return in.call(in.bind_descriptor(reader, type, object, getattribute), std::move(args));
    } catch (const Raise& raised) {
      if (!is_attribute_error(in, raised)) throw;
    }
  }
  try {
    return fallback_attr(in, object, name);
  } catch (const Raise& raised) {
    if (is_attribute_error(in, raised)) return nullptr;
    throw;
  }
}

Value* python_module_attr(Interpreter& in, ConstantValue* module, PyObject* name) {
  PyObject* object = module->object.get();
  PyObject* dict = PyModule_GetDict(object);
  const char* module_name = PyModule_GetName(object);
  if (!module_name) PyErr_Clear();
  Source* source = module->source ? module->source : in.sources().pinned(object, module_name ? module_name : "module");
  // A module can be given another class, one with a __getattribute__ of its own too.
  in.guard_type(source, Py_TYPE(object));
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  PyObject* reader = _PyType_Lookup(Py_TYPE(object), getattribute);
  if (!reader || !Py_IS_TYPE(reader, &PyWrapperDescr_Type))
    unknown(Py_TYPE(object), name, "its class has its own __getattribute__");
  PyObject* on_class = Py_TYPE(object) == &PyModule_Type ? nullptr : _PyType_Lookup(Py_TYPE(object), name);
  if (on_class && is_data_descriptor(on_class)) {
    in.guard_class(Py_TYPE(object));
    return in.bind_descriptor(on_class, Py_TYPE(object), module, name);
  }
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (!found && Py_TYPE(object) != &PyModule_Type) {
    // Lazily filled modules put the attribute into their dict the first time it is read.
    Ref filled = Ref::steal(PyObject_GetAttr(object, name));
    PyErr_Clear();
    found = PyDict_GetItemWithError(dict, name);
  }
  if (!found) {
    static PyObject* getattr = PyUnicode_InternFromString("__getattr__");
    PyObject* fallback = Py_TYPE(object) == &PyModule_Type ? nullptr : _PyType_Lookup(Py_TYPE(object), getattr);
    if (fallback && PyFunction_Check(fallback)) {
      in.guard_class(Py_TYPE(object));
      CallArgs args;
      args.positional = {in.constant(name)};
      return in.call(in.bind_descriptor(fallback, Py_TYPE(object), module, getattr), std::move(args));
    }
    if (PyDict_GetItemWithError(dict, getattr)) unknown(Py_TYPE(object), name, "the module's own __getattr__ answers");
    return nullptr;
  }
  Source* dict_source = instance_dict_source(in, source, dict);
  return in.wrap(found, in.sources().child(dict_source, SourceKind::DictItem, 0, name, found));
}

Value* class_object_attr(Interpreter& in, PyTypeObject* type, PyObject* name) {
  in.guard_class(type);
  PyTypeObject* meta = Py_TYPE(type);
  PyObject* on_meta = _PyType_Lookup(meta, name);
  if (PyType_IsSubtype(meta, enum_meta_type())) {
    Ref member = Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
    PyErr_Clear();
    if (member && (is_literal(member.get()) || Py_TYPE(member.get()) == type)) return in.constant(std::move(member));
  }
  if (on_meta && is_data_descriptor(on_meta)) {
    Ref found = Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
    if (!found) {
      PyErr_Clear();
      return nullptr;
    }
    if (is_literal(found.get()) || is_known_by_identity(found.get())) return in.constant(std::move(found));
    if (PyTuple_CheckExact(found.get())) return in.wrap_result(found.get());
    unknown(type, name, "an attribute of the class object itself");
  }
  PyObject* on_class = _PyType_Lookup(type, name);
  if (on_class) return in.bind_descriptor(on_class, type, nullptr, name);
  if (!on_meta) return nullptr;
  if (PyFunction_Check(on_meta))
    return in.bind_descriptor(on_meta, meta, in.constant(reinterpret_cast<PyObject*>(type)), name);
  if (Py_TYPE(on_meta) == &PyMethodDescr_Type || Py_TYPE(on_meta) == &PyWrapperDescr_Type)
    return in.arena.make<MethodValue>(in.constant(on_meta), in.constant(reinterpret_cast<PyObject*>(type)));
  unknown(type, name, "an attribute of its metaclass");
}

Value* function_attr(Interpreter& in, FunctionValue* function, PyObject* name) {
  std::string text = text_of(name);
  auto written = function->attributes.find(text);
  if (written != function->attributes.end()) return written->second;
  if (!function->function) {
    if (text == "__name__") return in.constant(function->code->co_name);
    if (text == "__qualname__") return in.constant(function->code->co_qualname);
    if (text == "__code__") return in.constant(reinterpret_cast<PyObject*>(function->code));
    if (text == "__wrapped__") return nullptr;
    unknown(&PyFunction_Type, name, "of a function made in the program");
  }
  Ref found = Ref::steal(PyObject_GetAttr(function->function.get(), name));
  if (!found) {
    PyErr_Clear();
    in.guard(function->source, FactKind::NoAttribute, name);
    return nullptr;
  }
  PyObject* on_class = _PyType_Lookup(&PyFunction_Type, name);
  if (on_class && !is_data_descriptor(on_class)) return in.arena.make<MethodValue>(in.constant(on_class), function);
  if (text == "__globals__" || text == "__closure__" || text == "__dict__" || text == "__annotations__")
    unknown(&PyFunction_Type, name, "internals of a function");
  return in.wrap(found.get(),
                 in.sources().child(function->source, SourceKind::Attribute, kClassField, name, found.get()));
}

/// Attributes of tuples, lists, dicts, sets, slices, iterators and literals: methods of the built-in class.
Value* builtin_instance_attr(Interpreter& in, Value* value, PyObject* name) {
  PyTypeObject* type = in.type_of(value);
  PyObject* on_class = _PyType_Lookup(type, name);
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(type));
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

Value* constant_attr(Interpreter& in, ConstantValue* constant, PyObject* name) {
  PyObject* object = constant->object.get();
  if (PyModule_Check(object)) return python_module_attr(in, constant, name);
  if (PyType_Check(object)) return class_object_attr(in, reinterpret_cast<PyTypeObject*>(object), name);
  if (constant->literal) return builtin_instance_attr(in, constant, name);
  // Known by identity: C functions, operators, enum members, exceptions.
  in.constant_of(constant);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* on_class = _PyType_Lookup(type, name);
  if (on_class && PyFunction_Check(on_class)) return in.bind_descriptor(on_class, type, constant, name);
  if (on_class && Py_TYPE(on_class) == &PyProperty_Type && !PyType_IsSubtype(Py_TYPE(type), enum_meta_type()))
    return in.bind_descriptor(on_class, type, constant, name);
  Ref found = Ref::steal(PyObject_GetAttr(object, name));
  if (!found) {
    PyErr_Clear();
    return nullptr;
  }
  if (is_literal(found.get()) || is_known_by_identity(found.get())) return in.constant(std::move(found));
  if (PyTuple_CheckExact(found.get())) return in.wrap_result(found.get());
  if (PyFunction_Check(found.get()))
    return in.wrap(found.get(), in.sources().pinned(found.get(), text_of(name).c_str()));
  unknown(type, name, "state of an object known by identity only");
}

/// What the class itself defines; borrowed from it. Built-in classes may keep their dict out of sight.
PyObject* own_class_attribute(PyTypeObject* type, PyObject* name) {
  if (type->tp_dict) return PyDict_GetItemWithError(type->tp_dict, name);
  Ref dict = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
  Ref found = dict ? Ref::steal(PyObject_GetItem(dict.get(), name)) : Ref();
  PyErr_Clear();
  return found.get();
}

Value* super_attr(Interpreter& in, SuperValue* super, PyObject* name) {
  in.guard_class(super->start_type);
  PyObject* mro = super->start_type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(super->type)) ++i;
  for (++i; i < n; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    PyObject* found = own_class_attribute(base, name);
    if (!found) continue;
    bool on_class =
        as<ConstantValue>(super->self) != nullptr && PyType_Check(as<ConstantValue>(super->self)->object.get());
    return in.bind_descriptor(found, super->start_type, on_class ? nullptr : super->self, name);
  }
  return nullptr;
}

}  // namespace

Value* instance_dict(Interpreter& in, ObjectValue* object) {
  if (object->object && object->attributes.empty() && object->pinned) {
    PyObject** slot = _PyObject_GetDictPtr(object->object.get());
    if (slot && *slot) return in.wrap(*slot, instance_dict_source(in, object->source, *slot));
  }
  if (!object->object) {
    if (!object->own) object->own = in.dict();
    return object->own;
  }
  throw Break{BreakId::unknown_attribute, std::string(object->type->tp_name) + ".__dict__"};
}

Value* generic_attr(Interpreter& in, ObjectValue* object, PyObject* name) {
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  PyTypeObject* type = object->type;
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(type));
  if (PyUnicode_Compare(name, dict_name) == 0) return instance_dict(in, object);

  PyObject* on_class = _PyType_Lookup(type, name);
  if (on_class && is_data_descriptor(on_class)) {
    PyTypeObject* descriptor_type = Py_TYPE(on_class);
    if (descriptor_type == &PyProperty_Type) return in.bind_descriptor(on_class, type, object, name);
    if (descriptor_type == &PyMemberDescr_Type) {
      if (Value** written = object->find(name)) return *written;
      if (!object->object) return nullptr;
      Ref found = Ref::steal(PyObject_GenericGetAttr(object->object.get(), name));
      if (!found) {
        PyErr_Clear();
        return nullptr;
      }
      return in.wrap(found.get(),
                     in.sources().child(object->source, SourceKind::Attribute, kClassField, name, found.get()));
    }
    return in.bind_descriptor(on_class, type, object, name);
  }
  if (Value** written = object->find(name)) {
    if (*written) return *written;
  } else if (object->object) {
    if (Value* own = own_attribute(in, object, name, on_class)) return own;
  }
  return on_class ? in.bind_descriptor(on_class, type, object, name) : nullptr;
}

Value* Interpreter::bind_descriptor(PyObject* descriptor, PyTypeObject* owner, Value* self, PyObject* name) {
  PyTypeObject* type = Py_TYPE(descriptor);
  auto pinned = [&](PyObject* object) {
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
  if (type == &PyProperty_Type) {
    if (!self) return constant(descriptor);
    Ref getter = Ref::steal(PyObject_GetAttrString(descriptor, "fget"));
    CallArgs args;
    args.positional = {self};
    return call(pinned(getter.get()), std::move(args));
  }
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyInstanceMethod_Type)
    return self ? static_cast<Value*>(arena.make<MethodValue>(constant(descriptor), self)) : constant(descriptor);
  if (type == &PyClassMethodDescr_Type) {
    Ref bound = Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(owner), name));
    return constant(std::move(bound));
  }
  if (PyCFunction_Check(descriptor)) return constant(descriptor);
  if (!type->tp_descr_get) return pinned(descriptor);
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
  unknown(owner, name, "a descriptor of a kind that is not modelled");
}

Value* Interpreter::find_attr(Value* value, PyObject* name) {
  switch (value->kind) {
    case Kind::Tensor:
      return tensor_attribute(*this, static_cast<TensorValue*>(value), name);
    case Kind::Constant:
      return constant_attr(*this, static_cast<ConstantValue*>(value), name);
    case Kind::Object:
      return object_attr(*this, static_cast<ObjectValue*>(value), name);
    case Kind::Function:
      return function_attr(*this, static_cast<FunctionValue*>(value), name);
    case Kind::Super:
      return super_attr(*this, static_cast<SuperValue*>(value), name);
    case Kind::Method: {
      auto* method = static_cast<MethodValue*>(value);
      std::string text = text_of(name);
      if (text == "__self__") return method->self;
      if (text == "__func__") return method->function;
      return find_attr(method->function, name);
    }
    case Kind::Null:
    case Kind::Cell:
      throw Break{BreakId::unknown_attribute, text_of(name)};
    default:
      return builtin_instance_attr(*this, value, name);
  }
}

Value* Interpreter::get_attr(Value* value, PyObject* name) {
  if (Value* found = find_attr(value, name)) return found;
  raise(PyExc_AttributeError,
        "'" + std::string(type_of(value)->tp_name) + "' object has no attribute '" + text_of(name) + "'");
}

void Interpreter::set_attr(Value* value, PyObject* name, Value* to) {
  static PyObject* const setattr = PyUnicode_InternFromString("__setattr__");
  static PyObject* const object_setattr = known_object("builtins.object.__setattr__");
  static PyObject* const module_setattr = known_object("torch.nn.Module.__setattr__");
  if (auto* function = as<FunctionValue>(value); function && !function->function) {
    function->attributes[text_of(name)] = to;
    return;
  }
  if (auto* tensor = as<TensorValue>(value)) return set_tensor_attribute(*this, tensor, name, to);
  auto* object = as<ObjectValue>(value);
  if (!object)
    throw Break{BreakId::mutation, "attribute '" + text_of(name) + "' of a " + std::string(type_of(value)->tp_name)};
  guard_class(object->type);
  PyObject* writer = _PyType_Lookup(object->type, setattr);
  if (writer == module_setattr && object->object) {
    // Parameters, buffers and submodules live in tables of their own; anything else is a plain attribute.
    if (to->kind == Kind::Tensor || to->kind == Kind::Object || module_member(*this, object, name))
      throw Break{BreakId::mutation, "a tensor or module is stored on a module as '" + text_of(name) + "'"};
  } else if (writer != object_setattr) {
    if (!PyFunction_Check(writer)) throw Break{BreakId::mutation, "a class with its own __setattr__"};
    CallArgs args;
    args.positional = {constant(name), to};
    call(bind_descriptor(writer, object->type, object, setattr), std::move(args));
    return;
  }
  plain_set_attr(*this, object, name, to);
}

void plain_set_attr(Interpreter& in, ObjectValue* object, PyObject* name, Value* to) {
  PyObject* on_class = _PyType_Lookup(object->type, name);
  if (on_class && is_data_descriptor(on_class) && Py_TYPE(on_class) != &PyMemberDescr_Type) {
    if (Py_TYPE(on_class) != &PyProperty_Type)
      throw Break{BreakId::mutation, "attribute '" + text_of(name) + "' through a descriptor"};
    Ref setter = Ref::steal(PyObject_GetAttrString(on_class, "fset"));
    if (!setter || setter.get() == Py_None)
      in.raise(PyExc_AttributeError, "property '" + text_of(name) + "' has no setter");
    CallArgs args;
    args.positional = {object, to};
    in.call(in.wrap(setter.get(), in.sources().pinned(setter.get(), "fset")), std::move(args));
    return;
  }
  if (!object->object) {
    if (!object->own) object->own = in.dict();
    in.dict_set(object->own, in.constant(name), to);
    return;
  }
  if (Value** written = object->find(name))
    *written = to;
  else
    object->attributes.push_back({Ref::borrow(name), to});
  in.effects.push_back({EffectKind::SetAttr, object, in.constant(name), to});
}

void Interpreter::del_attr(Value* value, PyObject* name) {
  auto* object = as<ObjectValue>(value);
  if (!object) throw Break{BreakId::mutation, "del of attribute '" + text_of(name) + "'"};
  static PyObject* const delattr = PyUnicode_InternFromString("__delattr__");
  static PyObject* const object_delattr = known_object("builtins.object.__delattr__");
  if (_PyType_Lookup(object->type, delattr) != object_delattr)
    throw Break{BreakId::mutation, "a class with its own __delattr__"};
  if (!object->object) {
    if (!object->own || !dict_delete(object->own, constant(name))) raise(PyExc_AttributeError, text_of(name));
    return;
  }
  get_attr(value, name);
  if (Value** written = object->find(name))
    *written = nullptr;
  else
    object->attributes.push_back({Ref::borrow(name), nullptr});
  effects.push_back({EffectKind::DelAttr, object, constant(name), nullptr});
}

Value* type_method(Interpreter& in, Value* object, PyObject* name) {
  PyTypeObject* type = in.type_of(object);
  in.guard_class(type);
  PyObject* found = _PyType_Lookup(type, name);
  if (!found)
    in.raise(PyExc_TypeError, "'" + std::string(type->tp_name) + "' object does not support " + text_of(name));
  return in.bind_descriptor(found, type, object, name);
}

}  // namespace stator::capture
