// External objects become values here.
#include "capture/guards/literals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/iteration/external_iterators.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/state/shared_dicts.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/dispatching.h"
#include "capture/interpreter/torch/hooks.h"
#include "capture/interpreter/torch/input_sizes.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/objects.h"
#include "capture/pycompat/views.h"

namespace stator::capture {

FunctionValue* Interpreter::external_function(PyObject* function, Source* source) {
  auto* made = arena.make<FunctionValue>();
  made->source = source;
  made->function = Ref::borrow(function);
  made->code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  made->globals = PyFunction_GET_GLOBALS(function);
  made->globals_source = guards.sources().pinned(made->globals, "globals");
  objects.add(function, made);
  return made;
}

/// Breaks at an object of which each call brings another one, which dies after it: guards on it would never hold again.
static void refuse_mortal(const Interpreter& in, PyObject* object, const Source* source) {
  const bool has_structure = is_literal_type(Py_TYPE(object)) || PyCell_Check(object) || TorchTracer::is_tensor(object);
  if (has_structure || in.start.break_is_error() || !in.start.is_mortal(source)) return;
  throw Break{BreakId::varying, source->describe()};
}

Value* Interpreter::wrap(PyObject* object, Source* source) {
  if (Value* value = prototypes.value_of(object)) return value;
  if (Value* known = objects.find(object)) {
    if (source && known->source && source != known->source) guards.add_same(source, known->source, true);
    return known;
  }
  const bool is_dict = PyDict_Check(object);
  if (const Value* container = is_dict ? objects.container_of_dict(object) : nullptr)
    break_on_shared_dict(guards, source, container, "the __dict__ of an OrderedDict");
  Value* owner = is_dict ? objects.owner_of_dict(object) : nullptr;
  auto* function = as<FunctionValue>(owner);
  if ((function && function->own) || as<TensorValue>(owner))
    break_on_shared_dict(guards, source, owner, "the __dict__ of a function or tensor that was changed");
  refuse_mortal(*this, object, source);
  Value* made = wrap_fresh(object, source);
  if (auto* instance = as<ObjectValue>(owner); instance && !instance->own) {
    guards.add_same(guards.sources().child(owner->source, SourceKind::InstanceDict, 0, nullptr, object), source, true);
    adopt_dict(*this, instance, as<DictValue>(made));
  }
  if (made->kind != Kind::Constant || !static_cast<ConstantValue*>(made)->literal) objects.add(object, made);
  return made;
}

/// Descriptors such as staticmethod and property have no weak references, and a guard that held one
/// would keep its class alive. Their functions are guarded instead.
static bool guard_parts(Interpreter& in, PyObject* object, Source* source) {
  static const std::vector<const char*> property = {"fget", "fset", "fdel"}, wrapper = {"__func__"};
  PyTypeObject* type = Py_TYPE(object);
  const bool is_wrapper = type == &PyStaticMethod_Type || type == &PyClassMethod_Type;
  if (source->kind == SourceKind::Pinned || (type != &PyProperty_Type && !is_wrapper)) return false;
  in.guards.add_type(source, type);
  for (const char* name : is_wrapper ? wrapper : property) {
    Ref key = Ref::steal(PyUnicode_InternFromString(name));
    Ref part = Ref::steal(PyObject_GenericGetAttr(object, key.get()));
    in.guards.add(in.guards.sources().child(source, SourceKind::Attribute, kClassField, key.get(), part.get()),
                  FactKind::Identity, part.get());
  }
  return true;
}

template <class V>
static V* from_source(V* value, Source* source) {
  value->source = source;
  return value;
}

static Value* external_tensor(Interpreter& in, PyObject* object, Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  if (TorchTracer::is_wrapper(object)) return external_wrapper(in, object, source);
  if (!TorchTracer::is_plain_tensor(object))
    throw Break{BreakId::tensor_subclass, source->describe() + " is a " + type->tp_name};
  if (!TorchTracer::is_plain_class(type)) {
    in.guards.add_type(source, type);
    in.guards.add_class(type);
  }
  auto* tensor = in.arena.make<TensorValue>(Ref(), type);
  tensor->real = Ref::borrow(object);
  return from_source(tensor, source);
}

static Value* external_view(Interpreter& in, PyObject* object, Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* viewed = pycompat::viewed_dict(object);
  refuse_written_class(in, viewed);
  in.guards.add_type(source, type);
  auto* dict =
      as<DictValue>(in.wrap(viewed, in.guards.sources().child(source, SourceKind::Proxied, 0, nullptr, viewed)));
  if (!dict) throw Break{BreakId::unknown_object, "a view of a subclass of dict"};
  const auto part = type == &PyDictKeys_Type     ? ViewValue::Part::Keys
                    : type == &PyDictValues_Type ? ViewValue::Part::Values
                                                 : ViewValue::Part::Items;
  return from_source(in.arena.make<ViewValue>(dict, part), source);
}

/// The value of a tuple, list, dict, dict view, set or slice; null for anything else.
static Value* external_container(Interpreter& in, PyObject* object, Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  // Lists of varying length are guarded by type only.
  if (type == &PyTuple_Type || type == size_type() || (type == &PyList_Type && !in.start.is_varying(source)) ||
      (PyTuple_Check(object) && is_named_tuple(type))) {
    auto* sequence = in.arena.make<SequenceValue>(PyList_Check(object) ? Kind::List : Kind::Tuple, type);
    sequence->external = Ref::borrow(object);
    sequence->items.assign(PySequence_Fast_GET_SIZE(object), nullptr);
    in.guards.add_type(source, type);
    in.guards.add(source, FactKind::Length, nullptr, static_cast<int64_t>(sequence->items.size()));
    return from_source(sequence, source);
  }
  if (type == &PyDict_Type || type == ordered_dict_type() || type == default_dict_type()) {
    auto* dict = in.arena.make<DictValue>(type);
    dict->external = Ref::borrow(object);
    in.guards.add_type(source, type);
    return from_source(dict, source);
  }
  if (type == &PyDictProxy_Type) {
    PyObject* mapping = pycompat::proxied_mapping(object);
    refuse_written_class(in, mapping);
    in.guards.add_type(source, type);
    auto* proxy = in.arena.make<ObjectValue>(type);
    proxy->object = Ref::borrow(object);
    proxy->base = in.wrap(mapping, in.guards.sources().child(source, SourceKind::Proxied, 0, nullptr, mapping));
    return from_source(proxy, source);
  }
  if (pycompat::is_dict_view(object)) return external_view(in, object, source);
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return external_set(in, object, source);
  if (type == &PySlice_Type) {
    in.guards.add_type(source, type);
    if (!is_literal(object)) throw Break{BreakId::unknown_object, "a slice of other things than literals"};
    in.guards.add(source, FactKind::Equals, object);
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    Value *start = in.constant(slice->start), *stop = in.constant(slice->stop), *step = in.constant(slice->step);
    return from_source(in.arena.make<SliceValue>(start, stop, step), source);
  }
  return nullptr;
}

/// The descriptor that a method of a C class was bound from. Null for a C function that is not such a method, and for a
/// method that is guarded by identity: one that has a model of its own, or that is found as a global variable, an
/// attribute of a class or a key.
static PyObject* native_descriptor(PyObject* object, const Source& source) {
  const auto [self, method] = pycompat::native_method(object);
  if (!self || PyModule_Check(self) || PyType_Check(self) || PyCapsule_CheckExact(self)) return nullptr;
  const bool is_key = source.kind == SourceKind::DictKey || source.kind == SourceKind::UpcomingKey;
  if (is_key || is_from_pinned(source) || model_of(object) || kind_of_callable(object) != CallableKind::Unknown)
    return nullptr;
  if (pycompat::is_method_wrapper(object)) return static_cast<PyObject*>(const_cast<void*>(method));
  Ref name = Ref::steal(PyUnicode_InternFromString(static_cast<const PyMethodDef*>(method)->ml_name));
  // A class before the one that defines the method may have another of this name: `super()` passes over it.
  PyObject* classes = Py_TYPE(self)->tp_mro;
  for (Py_ssize_t i = 0; classes && i < PyTuple_GET_SIZE(classes); ++i) {
    PyObject* found = look_up_own(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(classes, i)), name.get());
    if (found && Py_IS_TYPE(found, &PyMethodDescr_Type) && pycompat::method_of_descriptor(found) == method)
      return found;
  }
  return nullptr;
}

/// The value of a function, bound method or cell; null for anything else.
static Value* external_code(Interpreter& in, PyObject* object, Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyFunction_Type) {
    in.guards.add_type(source, type);
    return in.external_function(object, source);
  }
  if (type == &PyMethod_Type) {
    in.guards.add_type(source, type);
    auto part = [&](PyObject* held, SourceKind kind) {
      return in.wrap(held, in.guards.sources().child(source, kind, 0, nullptr, held));
    };
    Value* self = part(PyMethod_GET_SELF(object), SourceKind::BoundSelf);
    Value* function = part(PyMethod_GET_FUNCTION(object), SourceKind::BoundFunction);
    return from_source(in.arena.make<MethodValue>(function, self), source);
  }
  if (PyObject* descriptor = native_descriptor(object, *source)) {
    in.guards.add_type(source, type);
    in.guards.add(source, FactKind::NativeMethod, descriptor);
    PyObject* held = pycompat::native_method(object).self;
    Value* self = in.wrap(held, in.guards.sources().child(source, SourceKind::BoundSelf, 0, nullptr, held));
    in.type_of(self);  // guards the class, which owns the descriptor
    return from_source(in.arena.make<MethodValue>(in.constant(descriptor), self), source);
  }
  if (type == &PyCell_Type) {
    auto* cell = in.arena.make<CellValue>();
    cell->external = Ref::borrow(object);
    cell->loaded = false;
    return from_source(cell, source);
  }
  return nullptr;
}

static Value* external_constant(Interpreter& in, PyObject* object, Source* source) {
  if (!guard_parts(in, object, source)) in.guards.add(source, FactKind::Identity, object);
  // The class owns the descriptor of a field as long as the class is unchanged.
  if (PyTypeObject* owner = class_of_field(object)) in.guards.add_class(owner);
  auto* known = in.arena.make<ConstantValue>(Ref::borrow(object), false);
  known->guarded = true;
  return from_source(known, source);
}

PyObject* Interpreter::need_identity(ObjectValue* instance) {
  if (!instance->identity_guarded) guards.add(instance->source, FactKind::Identity, instance->object.get());
  instance->identity_guarded = true;
  return instance->object.get();
}

/// An instance and its `__dict__` have one state, whichever of them comes first; so have two instances that share it.
static void open_own_dict(Interpreter& in, ObjectValue* instance) {
  PyObject *object = instance->object.get(), *own = nullptr;
  if (stator_instance_dict(object, &own) != kStatorDictObject || !own || own == object) return;
  auto dict_of = [&](Source* owner) {
    return in.guards.sources().child(owner, SourceKind::InstanceDict, 0, nullptr, own);
  };
  if (!PyDict_CheckExact(own)) {
    in.guards.add_type(dict_of(instance->source), Py_TYPE(own));
    throw Break{BreakId::unknown_object, "an instance whose __dict__ is a " + std::string(Py_TYPE(own)->tp_name)};
  }
  if (const Value* container = in.objects.container_of_dict(own))
    break_on_shared_dict(in.guards, instance->source, own, container,
                         "an OrderedDict and another object share a __dict__");
  Value* shared = in.objects.claim_dict(own, instance);
  if (!shared) return;
  if (shared->kind != Kind::Dict) shared = in.wrap(own, dict_of(shared->source));
  in.guards.add_same(dict_of(instance->source), shared->source, true);
  instance->own = as<DictValue>(shared);
}

/// The value of an instance of any other class, which decides how attributes are read.
static Value* external_instance(Interpreter& in, PyObject* object, Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  auto* instance = from_source(in.arena.make<ObjectValue>(type), source);
  instance->object = Ref::borrow(object);
  const bool by_place = source->kind != SourceKind::Attribute && type != &PyList_Type && !is_per_call(*source);
  instance->through_dict = by_place || is_module_instance(object);
  in.guards.add_type(source, type);
  const bool by_structure = source->kind != SourceKind::Pinned && has_open_instances(type);
  source->recurring = by_structure && instance->through_dict;
  if (!by_structure && instance->through_dict) in.need_identity(instance);
  open_own_dict(in, instance);
  return instance;
}

Value* Interpreter::wrap_fresh(PyObject* object, Source* source) {
  // The items of a torch.Size may vary, as those of a tuple.
  if (is_literal_type(Py_TYPE(object)) && Py_TYPE(object) != size_type())
    return from_source(arena.make<ConstantValue>(Ref::borrow(object), true), source);
  if (TorchTracer::is_tensor(object)) return external_tensor(*this, object, source);
  if (Value* container = external_container(*this, object, source)) return container;
  if (Value* code = external_code(*this, object, source)) return code;
  if (is_guarded_by_identity(object)) return external_constant(*this, object, source);
  if (Value* array = wrap_array(*this, object, source)) return array;
  if (ExternalIterator* iterator = external_iterator(*this, object, source)) return from_source(iterator, source);
  return external_instance(*this, object, source);
}

/// Whether it is a torch.Size with an element that depends on data.
static bool holds_symbol(PyObject* object) {
  if (Py_TYPE(object) != size_type()) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!PyLong_CheckExact(PyTuple_GET_ITEM(object, i))) return true;
  return false;
}

Value* Interpreter::wrap_result(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (TorchTracer::is_tensor(object)) {
    if (TensorValue* known = objects.find_fake(object)) return known;
    if (TensorValue* known = tensor_of_probe(*this, object)) return known;
    if (type != TorchTracer::tensor_type() || !torch.tracer.knows(object))
      throw Break{BreakId::no_shape_function, "a tensor was made without an operator"};
    auto* tensor = arena.make<TensorValue>(Ref::borrow(object), type);
    if (TorchTracer::is_wrapped(object)) tensor->wrapped_at = frames.resumable_step();
    if (torch.dispatch) note_view(*this, tensor);
    objects.add_fake(object, tensor);
    return tensor;
  }
  if (is_literal_type(type) && !holds_symbol(object)) return constant(object);
  if (type == &PySet_Type) return arena.make<SetValue>(Ref::steal(PySet_New(object)), type);
  if (PyTuple_Check(object) || type == &PyList_Type) {
    auto* sequence = arena.make<SequenceValue>(PyTuple_Check(object) ? Kind::Tuple : Kind::List, type);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      sequence->items.push_back(wrap_result(PySequence_Fast_GET_ITEM(object, i)));
    return sequence;
  }
  if (type == &PyDict_Type) {
    DictValue* made = dict();
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value)) dict_set(made, wrap_result(key), wrap_result(value));
    return made;
  }
  if (is_literal(object) || is_guarded_by_identity(object)) return constant(object);
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return arena.make<SliceValue>(wrap_result(slice->start), wrap_result(slice->stop), wrap_result(slice->step));
  }
  if (Value* number = symbolic_number(*this, object)) return number;
  if (Value* array = array_result(*this, object)) return array;
  throw Break{BreakId::unknown_object, std::string("a result of type ") + type->tp_name};
}

/// Whether tensors of the class have no data yet (`UninitializedParameter`, `UninitializedBuffer`).
static bool is_uninitialized(PyTypeObject* type) {
  static PyObject* const mixin = known_object("torch.nn.parameter.UninitializedTensorMixin");
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(mixin));
}

PyObject* Interpreter::fake_of(TensorValue* tensor) {
  if (!tensor->fake && tensor->dispatching) {
    open_wrapper(*this, tensor);
  } else if (!tensor->fake) {
    // Most operators raise on it, so torch's compilers can't take it.
    if (options.for_python_backend && is_uninitialized(tensor->type))
      throw Break{BreakId::tensor_subclass, "a tensor without data, in a graph for a Python backend"};
    std::string name = tensor->source->describe();
    const shapes::InputLayout layout = symbolic_layout(*this, tensor);
    tensor->fake = torch.tracer.add_input(tensor->real.get(), name, layout);
    if (!tensor->fake) throw Break{BreakId::tensor_subclass, torch.tracer.failure()};
    if (tensor->layout) {
      guards.add(tensor->source, FactKind::ArrayLayout, tensor->layout.get());
    } else {
      Fact fact{FactKind::Tensor, Ref(), Ref(), 0, frames.user_line()};
      fact.tensor = TensorExpectation::of(tensor->real.get(), layout);
      guards.sources().add_fact(tensor->source, std::move(fact));
    }
    tensor->source->loaded = true;
    torch.inputs.push_back(tensor);
    objects.add_fake(tensor->fake.get(), tensor);
    if (start.spec())
      assume_spec(*this, tensor);
    else if (!layout.unbacked.empty())
      assume_marks(*this, tensor);
  }
  return tensor->fake.get();
}

PyObject* Interpreter::constant_of(Value* value) {
  auto* constant = as<ConstantValue>(value);
  if (!constant) return nullptr;
  if (constant->source && !constant->guarded) {
    // A value of another class need not be a reason to break.
    if (start.is_varying(constant->source)) guards.add_type(constant->source, Py_TYPE(constant->object.get()));
    start.refuse_varying(constant->source);
    guards.add(constant->source, FactKind::Equals, constant->object.get());
    constant->guarded = true;
    if (start.spec() && start.spec()->has_constant_int(*constant->source)) assume_spec(*this, *constant->source, {});
  }
  return constant->object.get();
}

Ref Interpreter::literal_of(Value* value) {
  const Nesting level;
  switch (value->kind) {
    case Kind::Constant: {
      PyObject* object = constant_of(value);
      // Real code is never given a prototype class: it could keep it, or show its address.
      if (prototypes.find(object)) return {};
      guard_own_state(static_cast<ConstantValue*>(value));
      return static_cast<ConstantValue*>(value)->literal || is_guarded_by_identity(object) ? Ref::borrow(object)
                                                                                           : Ref();
    }
    case Kind::Tuple:
    case Kind::List: {
      auto* sequence = static_cast<SequenceValue*>(value);
      Ref list = Ref::steal(PyList_New(0));
      for (size_t i = 0; i < sequence->items.size(); ++i) {
        Ref part = literal_of(item(sequence, i));
        if (!part) return {};
        PyList_Append(list.get(), part.get());
      }
      if (value->kind == Kind::List) return list;
      Ref tuple = Ref::steal(PyList_AsTuple(list.get()));
      if (sequence->type == &PyTuple_Type) return tuple;
      Ref arguments = Ref::steal(PyTuple_Pack(1, tuple.get()));
      static PyObject* const fields = PyUnicode_InternFromString("_fields");
      Ref made = Ref::steal(look_up(sequence->type, fields)
                                ? PyTuple_Type.tp_new(sequence->type, arguments.get(), nullptr)
                                : PyObject_Call(reinterpret_cast<PyObject*>(sequence->type), arguments.get(), nullptr));
      PyErr_Clear();
      return made;
    }
    case Kind::Dict: {
      auto* dict = static_cast<DictValue*>(value);
      if (dict->type != &PyDict_Type) return {};
      Ref made = Ref::steal(PyDict_New());
      for (auto& [name, item] : mapping_items(*this, dict)) {
        Ref key = literal_of(name), part = key ? literal_of(item) : Ref();
        if (!part || PyDict_SetItem(made.get(), key.get(), part.get()) < 0) {
          PyErr_Clear();
          return {};
        }
      }
      return made;
    }
    case Kind::Slice: {
      auto* slice = static_cast<SliceValue*>(value);
      Ref a = literal_of(slice->start), b = a ? literal_of(slice->stop) : Ref(),
          c = b ? literal_of(slice->step) : Ref();
      return c ? Ref::steal(PySlice_New(a.get(), b.get(), c.get())) : Ref();
    }
    case Kind::Set: {
      auto* set = static_cast<SetValue*>(value);
      if (set->table) return {};
      return Ref::steal(set->type == &PySet_Type ? PySet_New(set->elements.get())
                                                 : PyFrozenSet_New(set->elements.get()));
    }
    case Kind::Object: {
      // An instance of a subclass of str or a number whose identity is guarded: its value never changes.
      auto* object = static_cast<ObjectValue*>(value);
      PyObject* real = object->identity_guarded ? object->object.get() : nullptr;
      bool is_value =
          real && (PyUnicode_Check(real) || PyLong_Check(real) || PyFloat_Check(real) || PyBytes_Check(real));
      return is_value ? Ref::borrow(real) : Ref();
    }
    default:
      return {};
  }
}

/// The class of the object that binding a function returns.
static PyTypeObject* type_of_method(Value* function) {
  auto* native = as<ConstantValue>(function);
  if (!native) return &PyMethod_Type;
  return Py_TYPE(native->object.get()) == &PyWrapperDescr_Type ? pycompat::method_wrapper_type() : &PyCFunction_Type;
}

PyTypeObject* Interpreter::type_of(Value* value) {
  switch (value->kind) {
    case Kind::Constant: {
      auto* known = static_cast<ConstantValue*>(value);
      if (known->source && !known->guarded) guards.add_type(known->source, Py_TYPE(known->object.get()));
      return Py_TYPE(known->object.get());
    }
    case Kind::Tensor: {
      auto* tensor = static_cast<TensorValue*>(value);
      if (tensor->source && !tensor->fake) guards.add_type(tensor->source, tensor->type);
      return tensor->type;
    }
    case Kind::Tuple:
    case Kind::List:
      return static_cast<SequenceValue*>(value)->type;
    case Kind::Dict:
      return static_cast<DictValue*>(value)->type;
    case Kind::Set:
      return static_cast<SetValue*>(value)->type;
    case Kind::View: {
      static PyTypeObject* const types[] = {&PyDictKeys_Type, &PyDictValues_Type, &PyDictItems_Type};
      return types[static_cast<size_t>(static_cast<ViewValue*>(value)->part)];
    }
    case Kind::Slice:
      return &PySlice_Type;
    case Kind::Function:
      return &PyFunction_Type;
    case Kind::Method:
      return type_of_method(static_cast<MethodValue*>(value)->function);
    case Kind::Object:
      return static_cast<ObjectValue*>(value)->type;
    case Kind::Number:
      return static_cast<NumberValue*>(value)->type;
    case Kind::Text:
      return &PyUnicode_Type;
    case Kind::Cell:
      return &PyCell_Type;
    case Kind::Super:
      return &PySuper_Type;
    case Kind::Iterator:
      return static_cast<IteratorValue*>(value)->type();
    case Kind::Array:
      return array_type(*this, static_cast<ArrayValue*>(value));
    case Kind::Opaque:
      if (PyTypeObject* known = deferred_class(static_cast<OpaqueValue*>(value))) return known;
      refuse_result(*this, value);
      throw Break{BreakId::unknown_object, std::string("the class of ") + static_cast<OpaqueValue*>(value)->what};
    case Kind::Null:
    case Kind::Unread:
      break;
  }
  throw Break{BreakId::internal, "type of NULL"};
}

}  // namespace stator::capture
