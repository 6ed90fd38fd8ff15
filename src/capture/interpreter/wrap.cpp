// Outside objects become values here.
#include "capture/guards/literals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/iteration/outside_iterators.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/nesting.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/hooks.h"
#include "capture/interpreter/torch/numbers.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {

FunctionValue* Interpreter::outside_function(PyObject* function, Source* source) {
  auto* made = arena.make<FunctionValue>();
  made->source = source;
  made->function = Ref::borrow(function);
  made->code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  made->globals = PyFunction_GET_GLOBALS(function);
  made->globals_source = sources_->pinned(made->globals, "globals");
  by_object_[function] = made;
  return made;
}

Value* Interpreter::wrap(PyObject* object, Source* source) {
  if (Value* value = prototypes.value_of(object)) return value;
  auto found = by_object_.find(object);
  if (found != by_object_.end()) {
    Value* known = found->second;
    if (source && known->source && source != known->source) guard_same(source, known->source, true);
    return known;
  }
  auto owner = instance_dicts_.find(object);
  Value* made = wrap_fresh(object, source);
  if (owner != instance_dicts_.end() && !owner->second->own) adopt_dict(*this, owner->second, as<DictValue>(made));
  if (made->kind != Kind::Constant || !static_cast<ConstantValue*>(made)->literal) by_object_[object] = made;
  return made;
}

/// Whether another call may well bring another object: then it is known by its class, not by who it is.
static bool is_per_call(const Source* source) {
  switch (source->kind) {
    case SourceKind::Argument:
    case SourceKind::Item:
    case SourceKind::Upcoming:
    case SourceKind::FunctionMode:
      return true;
    case SourceKind::DictItem:
      return source->parent->kind != SourceKind::InstanceDict && source->parent->kind != SourceKind::Pinned;
    case SourceKind::BoundSelf:
    case SourceKind::CellContents:
      return is_per_call(source->parent);
    default:
      return false;
  }
}

/// Descriptors that the language makes out of functions: nobody can watch whether one lives, and a guard that held it
/// would hold its class. What such a thing does, its parts do.
static bool guard_parts(Interpreter& in, PyObject* object, Source* source) {
  static const std::vector<const char*> property = {"fget", "fset", "fdel"}, wrapper = {"__func__"};
  PyTypeObject* type = Py_TYPE(object);
  const bool is_wrapper = type == &PyStaticMethod_Type || type == &PyClassMethod_Type;
  if (source->kind == SourceKind::Pinned || (type != &PyProperty_Type && !is_wrapper)) return false;
  in.guard_type(source, type);
  for (const char* name : is_wrapper ? wrapper : property) {
    Ref key = Ref::steal(PyUnicode_InternFromString(name));
    Ref part = Ref::steal(PyObject_GenericGetAttr(object, key.get()));
    in.guard(in.sources().child(source, SourceKind::Attribute, kClassField, key.get(), part.get()), FactKind::Identity,
             part.get());
  }
  return true;
}

Value* Interpreter::wrap_fresh(PyObject* object, Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  auto from_outside = [&](auto* value) {
    value->source = source;
    return value;
  };

  if (is_literal_type(type)) return from_outside(arena.make<ConstantValue>(Ref::borrow(object), true));

  if (TorchTracer::is_tensor(object)) {
    if (!TorchTracer::is_plain_tensor(object))
      throw Break{BreakId::tensor_subclass, source->describe() + " is a " + type->tp_name};
    if (!TorchTracer::is_plain_class(type)) {
      guard_type(source, type);
      guard_class(type);
    }
    auto* tensor = arena.make<TensorValue>(Ref(), type);
    tensor->real = Ref::borrow(object);
    return from_outside(tensor);
  }

  // A list whose length changes is only known by its class.
  if (type == &PyTuple_Type || (type == &PyList_Type && !is_varying(source)) ||
      (PyTuple_Check(object) && is_named_tuple(type))) {
    auto* sequence = arena.make<SequenceValue>(PyList_Check(object) ? Kind::List : Kind::Tuple, type);
    sequence->outside = Ref::borrow(object);
    sequence->items.assign(PySequence_Fast_GET_SIZE(object), nullptr);
    guard_type(source, type);
    guard(source, FactKind::Length, nullptr, static_cast<int64_t>(sequence->items.size()));
    return from_outside(sequence);
  }

  if (type == &PyDict_Type || type == ordered_dict_type() || type == default_dict_type()) {
    auto* dict = arena.make<DictValue>(type);
    dict->outside = Ref::borrow(object);
    guard_type(source, type);
    return from_outside(dict);
  }

  if (type == &PyDictProxy_Type) {
    PyObject* mapping = pycompat::proxied_mapping(object);
    refuse_written_class(*this, mapping);
    guard_type(source, type);
    auto* proxy = arena.make<ObjectValue>(type);
    proxy->object = Ref::borrow(object);
    proxy->base = wrap(mapping, sources_->child(source, SourceKind::Proxied, 0, nullptr, mapping));
    return from_outside(proxy);
  }

  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    return outside_set(*this, object, source);
  }

  if (type == &PySlice_Type) {
    guard_type(source, type);
    if (!is_literal(object)) throw Break{BreakId::unknown_object, "a slice of other things than literals"};
    guard(source, FactKind::Equals, object);
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return from_outside(arena.make<SliceValue>(constant(slice->start), constant(slice->stop), constant(slice->step)));
  }

  if (type == &PyFunction_Type) {
    guard_type(source, type);
    return outside_function(object, source);
  }

  if (type == &PyMethod_Type) {
    guard_type(source, type);
    PyObject* self = PyMethod_GET_SELF(object);
    PyObject* function = PyMethod_GET_FUNCTION(object);
    Value* bound_self = wrap(self, sources_->child(source, SourceKind::BoundSelf, 0, nullptr, self));
    Value* bound_function = wrap(function, sources_->child(source, SourceKind::BoundFunction, 0, nullptr, function));
    return from_outside(arena.make<MethodValue>(bound_function, bound_self));
  }

  if (type == &PyCell_Type) {
    auto* cell = arena.make<CellValue>();
    cell->outside = Ref::borrow(object);
    cell->loaded = false;
    return from_outside(cell);
  }

  if (is_known_by_identity(object)) {
    if (!guard_parts(*this, object, source)) guard(source, FactKind::Identity, object);
    // The class keeps a field's descriptor, as long as it is what it is.
    if (PyTypeObject* owner = class_of_field(object)) guard_class(owner);
    auto* known = arena.make<ConstantValue>(Ref::borrow(object), false);
    known->guarded = true;
    return from_outside(known);
  }

  if (Value* array = wrap_array(*this, object, source)) return array;
  if (OutsideIterator* iterator = outside_iterator(*this, object, source)) return from_outside(iterator);

  // Anything else is an instance whose class decides how it is read.
  auto* instance = arena.make<ObjectValue>(type);
  instance->object = Ref::borrow(object);
  instance->pinned = is_module_instance(object) || !is_per_call(source);
  if (source->kind == SourceKind::Attribute || type == &PyList_Type) instance->pinned = is_module_instance(object);
  guard_type(source, type);
  if (instance->pinned) guard(source, FactKind::Identity, object);
  from_outside(instance);
  // An instance and its own dict are one, whichever of them comes first.
  PyObject* own = nullptr;
  if (stator_instance_dict(object, &own) == kStatorDictObject && own && own != object) {
    if (!PyDict_CheckExact(own))
      throw Break{BreakId::unknown_object, "an instance whose __dict__ is a " + std::string(Py_TYPE(own)->tp_name)};
    auto known = by_object_.find(own);
    if (known != by_object_.end()) {
      guard_same(sources_->child(source, SourceKind::InstanceDict, 0, nullptr, own), known->second->source, true);
      instance->own = as<DictValue>(known->second);
    }
    instance_dicts_[own] = instance;
  }
  return instance;
}

/// Whether it is a torch.Size of which an element depends on data.
static bool holds_symbol(PyObject* object) {
  if (Py_TYPE(object) != size_type()) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!PyLong_CheckExact(PyTuple_GET_ITEM(object, i))) return true;
  return false;
}

Value* Interpreter::wrap_result(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (TorchTracer::is_tensor(object)) {
    if (auto* found = by_fake_.find(object)) return *found;
    if (type != TorchTracer::tensor_type() || !torch.knows(object))
      throw Break{BreakId::torch_refused, "a tensor was made without an operator"};
    auto* tensor = arena.make<TensorValue>(Ref::borrow(object), type);
    if (TorchTracer::is_wrapped(object)) tensor->wrapped_at = resumable_step();
    by_fake_.set(object, tensor);
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
  if (is_literal(object) || is_known_by_identity(object)) return constant(object);
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return arena.make<SliceValue>(wrap_result(slice->start), wrap_result(slice->stop), wrap_result(slice->step));
  }
  if (Value* number = symbolic_number(*this, object)) return number;
  if (Value* array = array_result(*this, object)) return array;
  throw Break{BreakId::unknown_object, std::string("a result of type ") + type->tp_name};
}

PyObject* Interpreter::fake_of(TensorValue* tensor) {
  if (!tensor->fake) {
    std::string name = tensor->source->describe();
    tensor->fake = torch.add_input(tensor->real.get(), name);
    if (!tensor->fake) throw Break{BreakId::tensor_subclass, torch.failure()};
    if (tensor->layout) {
      guard(tensor->source, FactKind::ArrayLayout, tensor->layout.get());
    } else {
      Fact fact{FactKind::Tensor, Ref(), Ref(), 0, user_line()};
      fact.tensor = TensorExpectation::of(tensor->real.get());
      sources_->add_fact(tensor->source, std::move(fact));
    }
    tensor->source->loaded = true;
    inputs.push_back(tensor);
    by_fake_.set(tensor->fake.get(), tensor);
  }
  return tensor->fake.get();
}

bool Interpreter::is_variable(PyObject* object) const {
  for (const Ref& value : values_)
    if (value.get() == object && object != Py_None) return true;
  return false;
}

bool Interpreter::is_varying(const Source* source) const {
  return varying_ && !varying_->empty() && varying_->contains(source->describe());
}

void Interpreter::refuse_varying(const Source* source) const {
  if (is_varying(source)) throw Break{BreakId::varying, source->describe()};
}

PyObject* Interpreter::constant_of(Value* value) {
  auto* constant = as<ConstantValue>(value);
  if (!constant) return nullptr;
  if (constant->source && !constant->guarded) {
    refuse_varying(constant->source);
    guard(constant->source, FactKind::Equals, constant->object.get());
    constant->guarded = true;
  }
  return constant->object.get();
}

Ref Interpreter::literal_of(Value* value) {
  const Nesting level;
  switch (value->kind) {
    case Kind::Constant: {
      PyObject* object = constant_of(value);
      // Who would be asked about it could keep it, or tell its address.
      if (prototypes.find(object)) return {};
      return static_cast<ConstantValue*>(value)->literal || is_known_by_identity(object) ? Ref::borrow(object) : Ref();
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
      Ref made = Ref::steal(_PyType_Lookup(sequence->type, fields)
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
      PyObject* real = object->pinned ? object->object.get() : nullptr;
      bool is_value =
          real && (PyUnicode_Check(real) || PyLong_Check(real) || PyFloat_Check(real) || PyBytes_Check(real));
      return is_value ? Ref::borrow(real) : Ref();
    }
    default:
      return {};
  }
}

/// The class of what a function makes when it is bound.
static PyTypeObject* type_of_method(Value* function) {
  auto* native = as<ConstantValue>(function);
  if (!native) return &PyMethod_Type;
  return Py_TYPE(native->object.get()) == &PyWrapperDescr_Type ? pycompat::method_wrapper_type() : &PyCFunction_Type;
}

PyTypeObject* Interpreter::type_of(Value* value) {
  switch (value->kind) {
    case Kind::Constant: {
      auto* known = static_cast<ConstantValue*>(value);
      if (known->source && !known->guarded) guard_type(known->source, Py_TYPE(known->object.get()));
      return Py_TYPE(known->object.get());
    }
    case Kind::Tensor: {
      auto* tensor = static_cast<TensorValue*>(value);
      if (tensor->source && !tensor->fake) guard_type(tensor->source, tensor->type);
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
      throw Break{BreakId::unknown_object, std::string("the class of ") + static_cast<OpaqueValue*>(value)->what};
    case Kind::Null:
    case Kind::Unread:
      break;
  }
  throw Break{BreakId::internal, "type of NULL"};
}

}  // namespace stator::capture
