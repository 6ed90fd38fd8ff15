// Items of sequences, dicts and sets; iteration over anything but iterators themselves is in iteration/.
#include "capture/guards/literals.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/containers/merging.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/opcodes/handlers.h"
#include "capture/interpreter/operators/equality.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/number_subscripts.h"
#include "capture/interpreter/torch/numbers.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {

Value* Interpreter::item(SequenceValue* sequence, size_t index) {
  Value*& slot = sequence->items[index];
  if (!slot) {
    PyObject* object = PySequence_Fast_GET_ITEM(sequence->outside.get(), index);
    slot =
        wrap(object, sources_->child(sequence->source, SourceKind::Item, static_cast<int32_t>(index), nullptr, object));
  }
  return slot;
}

// ---- dicts

/// Where the key's entry is, or nowhere.
static std::optional<size_t> find_entry(Interpreter& in, DictValue* dict, Value* key, Py_hash_t hash) {
  auto [first, last] = dict->index.equal_range(hash);
  const uint64_t mutations = in.mutations;
  for (; first != last; ++first) {
    DictValue::Entry& entry = dict->entries[first->second];
    const bool same = entry.key && same_key(in, entry.key, key);
    // The program's own `__eq__` may change the dict itself, and a lookup begins anew then.
    if (in.mutations != mutations) throw Break{BreakId::mutation, "an __eq__ that changes containers"};
    if (same) return first->second;
  }
  // Keys that are told apart by identity are other objects on every call only if that is looked at.
  if (key->source && is_identity_key(in, key))
    for (DictValue::Entry& entry : dict->entries)
      if (entry.key && entry.key->source && is_identity_key(in, entry.key)) in.is_same(entry.key, key);
  return std::nullopt;
}

void Interpreter::realise(DictValue* dict) {
  if (dict->is_globals && globals_written.count(dict->outside.get()))
    throw Break{BreakId::mutation, "globals that the program wrote to are looked through"};
  if (!dict->outside || dict->mutated) return;
  if (!dict->entries.empty() || PyDict_GET_SIZE(dict->outside.get()) == 0) {
    if (dict->entries.empty()) guard(dict->source, FactKind::Length, nullptr, 0);
    return;
  }
  PyObject* object = dict->outside.get();
  Ref keys = Ref::steal(PyTuple_New(PyDict_GET_SIZE(object)));
  // By iteration and not by table, since an OrderedDict keeps an order of its own.
  Ref iterator = Ref::steal(PyDict_Check(object) && PyODict_Check(object) ? PyODict_Type.tp_iter(object)
                                                                          : PyDict_Type.tp_iter(object));
  Py_ssize_t i = 0;
  while (PyObject* key = PyIter_Next(iterator.get())) {
    PyTuple_SET_ITEM(keys.get(), i++, key);
    Value* known_key = outside_element(*this, key);
    dict->index.emplace(key_hash(*this, known_key), dict->entries.size());
    dict->entries.push_back({known_key, nullptr});
  }
  dict->live = dict->entries.size();
  guard(dict->source, FactKind::Keys, keys.get());
}

Value* Interpreter::entry_value(DictValue* dict, size_t index) {
  DictValue::Entry& entry = dict->entries[index];
  if (!entry.value) {
    Ref key = outside_key(*this, entry.key);
    PyObject* found = PyDict_GetItemWithError(dict->outside.get(), key.get());
    if (!found) throw Break{BreakId::internal, "an outside dict changed during capture"};
    entry.value = wrap(found, sources_->child(dict->source, SourceKind::DictItem, 0, key.get(), found));
  }
  return entry.value;
}

/// The name, if it is one that a module's globals can be asked for.
static PyObject* global_name(Interpreter& in, DictValue* dict, Value* key) {
  PyObject* name = key->kind == Kind::Constant ? in.constant_of(key) : nullptr;
  return dict->is_globals && name && PyUnicode_CheckExact(name) ? name : nullptr;
}

Value* Interpreter::dict_get(DictValue* dict, Value* key) {
  if (PyObject* global = global_name(*this, dict, key))
    if (auto written = written_global(*this, dict->outside.get(), global)) return *written;
  Py_hash_t hash = key_hash(*this, key);
  PyObject* name = key->kind == Kind::Constant ? constant_of(key) : nullptr;
  if (dict->outside && !dict->mutated && dict->entries.empty() && name &&
      (PyUnicode_CheckExact(name) || PyBytes_CheckExact(name))) {
    // One key of an outside dict is looked at: only that is guarded.
    PyObject* found = plain_item(dict->outside.get(), name);
    if (!found) {
      guard(dict->source, FactKind::Absent, name);
      return nullptr;
    }
    return wrap(found, sources_->child(dict->source, SourceKind::DictItem, 0, name, found));
  }
  realise(dict);
  auto found = find_entry(*this, dict, key, hash);
  return found ? entry_value(dict, *found) : nullptr;
}

static void realise_all(Interpreter& in, DictValue* dict) {
  in.realise(dict);
  if (dict->outside && !dict->mutated)
    for (size_t i = 0; i < dict->entries.size(); ++i)
      if (dict->entries[i].key) in.entry_value(dict, i);
}

void Interpreter::dict_set(DictValue* dict, Value* key, Value* value) {
  if (PyObject* global = global_name(*this, dict, key)) return store_global(*this, dict->outside.get(), global, value);
  Py_hash_t hash = key_hash(*this, key);
  if (dict->outside && !dict->mutated) {
    realise_all(*this, dict);
    dict->mutated = true;
  }
  if (auto found = find_entry(*this, dict, key, hash)) {
    dict->entries[*found].value = value;
    return;
  }
  dict->index.emplace(hash, dict->entries.size());
  dict->entries.push_back({key, value});
  ++dict->live;
}

Value* dict_put_new(Interpreter& in, DictValue* dict, Value* key, Value* value) {
  if (!hashes_aloud(in, key)) {
    if (Value* found = in.dict_get(dict, key)) return found;
    in.dict_set(dict, key, value);
    return nullptr;
  }
  Py_hash_t hash = key_hash(in, key);
  realise_all(in, dict);
  if (auto found = find_entry(in, dict, key, hash)) return in.entry_value(dict, *found);
  if (dict->outside) dict->mutated = true;
  dict->index.emplace(hash, dict->entries.size());
  dict->entries.push_back({key, value});
  ++dict->live;
  return nullptr;
}

Value* dict_take(Interpreter& in, DictValue* dict, Value* key) {
  if (!hashes_aloud(in, key)) {
    Value* found = in.dict_get(dict, key);
    if (found) in.dict_delete(dict, key);
    return found;
  }
  // CPython hashes nothing to find an empty dict empty.
  if (*in.length_of(dict) == 0) return nullptr;
  Py_hash_t hash = key_hash(in, key);
  realise_all(in, dict);
  auto found = find_entry(in, dict, key, hash);
  if (!found) return nullptr;
  Value* value = in.entry_value(dict, *found);
  if (dict->outside) dict->mutated = true;
  dict->entries[*found] = {};
  --dict->live;
  return value;
}

bool Interpreter::dict_delete(DictValue* dict, Value* key) {
  if (PyObject* global = global_name(*this, dict, key)) {
    if (!dict_get(dict, key)) return false;
    store_global(*this, dict->outside.get(), global, nullptr);
    return true;
  }
  Py_hash_t hash = key_hash(*this, key);
  if (dict->outside && !dict->mutated) {
    realise_all(*this, dict);
    dict->mutated = true;
  }
  auto found = find_entry(*this, dict, key, hash);
  if (!found) return false;
  dict->entries[*found] = {};
  --dict->live;
  return true;
}

DictValue* Interpreter::dict_part(Value* value) {
  if (auto* dict = as<DictValue>(value)) return dict;
  if (auto* object = as<ObjectValue>(value)) {
    if (object->type == &PyDictProxy_Type) return nullptr;  // what it shows is no part of it
    if (!object->base && object->object && PyDict_Check(object->object.get())) {
      // The instance's own dict storage, read like a dict.
      auto* dict = arena.make<DictValue>(PyODict_Check(object->object.get()) ? &PyODict_Type : &PyDict_Type);
      dict->outside = object->object;
      dict->source = object->source;
      object->base = dict;
    }
    return as<DictValue>(object->base);
  }
  return nullptr;
}

SequenceValue* Interpreter::list_part(Value* value) {
  if (auto* sequence = as_sequence(value)) return sequence;
  if (auto* object = as<ObjectValue>(value)) {
    bool is_deque = object->type == deque_type();
    // Such a one is not known by more than its class because its length changes.
    if (object->type == &PyList_Type && object->object) refuse_varying(object->source);
    if (!object->base && object->object &&
        (PyList_Check(object->object.get()) || PyTuple_Check(object->object.get()) || is_deque)) {
      bool is_list = PyList_Check(object->object.get()) || is_deque;
      auto* sequence =
          arena.make<SequenceValue>(is_list ? Kind::List : Kind::Tuple, is_list ? &PyList_Type : &PyTuple_Type);
      sequence->outside = is_deque ? Ref::steal(PySequence_Tuple(object->object.get())) : object->object;
      sequence->source = object->source;
      sequence->items.assign(PySequence_Fast_GET_SIZE(sequence->outside.get()), nullptr);
      guard(object->source, FactKind::Length, nullptr, static_cast<int64_t>(sequence->items.size()));
      object->base = sequence;
    }
    return as_sequence(object->base);
  }
  return nullptr;
}

void Interpreter::refuse_frozen(const Value* value) const {
  if (frozen_values && arena.is_among_first(value, *frozen_values))
    throw Break{BreakId::mutation, "a change in a part that may run any number of times"};
}

void Interpreter::mutated(Value* container) {
  ++mutations;
  refuse_frozen(container);
  auto* dict = as<DictValue>(container);
  if (!container->source || (dict && dict->is_globals)) return;
  if (dict) {
    realise_all(*this, dict);
    dict->mutated = true;
  }
  EffectKind kind = container->kind == Kind::List ? EffectKind::ListReplace : EffectKind::DictReplace;
  for (const Effect& known : effects)
    if (known.target == container && known.kind == kind) return;
  let_go_of_parts(container);
  if (auto* sequence = as_sequence(container))
    for (size_t i = 0; i < sequence->items.size(); ++i) item(sequence, i);
  effects.push_back({kind, container});
}

void Interpreter::replay_method(Value* target, const char* method, std::vector<Value*> arguments) {
  let_go_of_parts(target);
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  effects.push_back({EffectKind::CallMethod, target, constant(std::move(name)), tuple(std::move(arguments))});
}

bool has_keys(Interpreter& in, Value* mapping) {
  static PyObject* const name = PyUnicode_InternFromString("keys");
  return in.find_attr(mapping, name) != nullptr;
}

std::vector<std::pair<Value*, Value*>> mapping_items(Interpreter& in, Value* mapping) {
  std::vector<std::pair<Value*, Value*>> items;
  each_item(in, mapping, [&](Value* key, Value* value) { items.emplace_back(key, value); });
  return items;
}

Value* default_factory(Interpreter& in, DictValue* dict) {
  if (!dict->default_factory && dict->outside) {
    static PyObject* const name = PyUnicode_InternFromString("default_factory");
    Ref factory = Ref::steal(PyObject_GetAttr(dict->outside.get(), name));
    if (!factory) throw Break{BreakId::raises, take_error_text()};
    dict->default_factory = in.wrap(
        factory.get(), in.sources().child(dict->source, SourceKind::Attribute, kClassField, name, factory.get()));
  }
  return dict->default_factory ? dict->default_factory : in.none();
}

// ---- subscripts

struct SliceBounds {
  Py_ssize_t start, stop, step, count;
};
static SliceBounds slice_of(Interpreter& in, SliceValue* slice, size_t size) {
  Ref literal = in.literal_of(slice);
  if (!literal) throw Break{BreakId::unknown_object, "a slice that is no constant"};
  SliceBounds bounds{};
  if (PySlice_Unpack(literal.get(), &bounds.start, &bounds.stop, &bounds.step) < 0) raise_current(in);
  bounds.count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(size), &bounds.start, &bounds.stop, bounds.step);
  return bounds;
}

static Value* sequence_item(Interpreter& in, SequenceValue* sequence, Value* key) {
  Py_ssize_t size = static_cast<Py_ssize_t>(sequence->items.size());
  if (auto* slice = as<SliceValue>(key)) {
    auto [start, stop, step, count] = slice_of(in, slice, sequence->items.size());
    if (is_exact_tuple(sequence) && step == 1 && count == size) return sequence;
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < count; ++i) items.push_back(in.item(sequence, start + i * step));
    if (sequence->type == size_type()) {
      auto* part = in.arena.make<SequenceValue>(Kind::Tuple, sequence->type);
      part->items = std::move(items);
      return part;
    }
    return sequence->kind == Kind::List ? in.list(std::move(items)) : in.tuple(std::move(items));
  }
  PyObject* index = in.constant_of(key);
  if (key->kind != Kind::Object && (!index || !PyIndex_Check(index))) {
    if (key->kind == Kind::Tensor) throw Break{BreakId::data_dependent, "a tensor as the index of a sequence"};
    if (is_number(key)) needs_number("as the index of a sequence");
    in.raise(PyExc_TypeError, std::string(sequence->kind == Kind::List ? "list" : "tuple") +
                                  " indices must be integers or slices, not " + in.type_of(key)->tp_name);
  }
  Py_ssize_t at = index_of(in, key);
  if (at < 0) at += size;
  if (at < 0 || at >= size)
    in.raise(PyExc_IndexError, sequence->kind == Kind::List ? "list index out of range" : "tuple index out of range");
  return in.item(sequence, at);
}

/// A key for tensor subscripts; index lists become constants, since the binding would write them by pointer.
static Ref tensor_key(Interpreter& in, Value* key) {
  if (key->kind == Kind::List) {
    Ref literal = in.literal_of(key);
    if (!literal) return in.to_torch(key);
    Ref made = Ref::steal(PyObject_CallOneArg(known_object("torch.tensor"), literal.get()));
    if (!made) throw Break{BreakId::torch_error, take_error_text()};
    Ref fake = in.torch.add_constant(made.get());
    if (!fake) throw Break{BreakId::torch_refused, in.torch.failure()};
    return fake;
  }
  if (key->kind == Kind::Tuple) {
    auto* sequence = static_cast<SequenceValue*>(key);
    Ref tuple = Ref::steal(PyTuple_New(sequence->items.size()));
    for (size_t i = 0; i < sequence->items.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), i, tensor_key(in, in.item(sequence, i)).release());
    return tuple;
  }
  return in.to_torch(key);
}

/// `cls[key]`: by the metaclass, or by `__class_getitem__`.
static Value* class_item(Interpreter& in, PyTypeObject* type, Value* key) {
  static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
  static PyObject* const class_getitem = PyUnicode_InternFromString("__class_getitem__");
  Value* self = in.constant(reinterpret_cast<PyObject*>(type));
  PyObject* on_meta = _PyType_Lookup(Py_TYPE(type), getitem);
  in.guard_class(type);
  if (on_meta && !PyType_IsSubtype(Py_TYPE(type), enum_meta_type()))
    return in.call(type_method(in, self, getitem), arguments({key}));
  PyObject* found = on_meta ? nullptr : _PyType_Lookup(type, class_getitem);
  if (found && Py_TYPE(found) == &PyClassMethod_Type) {
    Ref inner = Ref::steal(PyObject_GetAttrString(found, "__func__"));
    // That of typing.Generic makes an alias, which is known by who it is.
    static PyObject* const generic = known_object("typing.Generic.__class_getitem__");
    if (PyFunction_Check(inner.get()) && found != generic)
      return in.call(in.bind_descriptor(found, type, nullptr, class_getitem), arguments({key}));
  }
  Ref literal = in.literal_of(key);
  if (!literal) throw Break{BreakId::unknown_object, "subscript of a class"};
  Ref result = Ref::steal(PyObject_GetItem(reinterpret_cast<PyObject*>(type), literal.get()));
  if (!result) raise_current(in);
  return in.wrap_result(result.get());
}

Value* missing_item(Interpreter& in, DictValue* dict, Value* key) {
  Value* factory = default_factory(in, dict);
  if (in.is_same(factory, in.none())) raise_key_error(in, key);
  Value* made = in.call(factory, {});
  in.dict_set(dict, key, made);
  in.mutated(dict);
  return made;
}

Value* tensor_item(Interpreter& in, TensorValue* tensor, Value* key) {
  Value* const both[] = {tensor, key};
  if (is_overridden(in, tensor) || is_overridden(in, key))
    return in.apply(both, "subscript", [](PyObject* const* x) { return PyObject_GetItem(x[0], x[1]); });
  if (Value* view = subscript_by_numbers(in, tensor, key)) return view;
  Ref index = tensor_key(in, key);
  PyObject* fake = in.fake_of(tensor);
  return in.torch_result([&] { return PyObject_GetItem(fake, index.get()); }, "subscript");
}

Value* Interpreter::get_item(Value* value, Value* key) {
  if (auto* sequence = as_sequence(value)) return sequence_item(*this, sequence, key);
  if (value->kind == Kind::Array) return array_method(*this, "__getitem__", {value, key});
  auto* tensor = as<TensorValue>(value);
  if (tensor && !defines_anew(*this, tensor, "__getitem__")) return tensor_item(*this, tensor, key);
  if (auto* dict = as<DictValue>(value)) {
    if (Value* found = dict_get(dict, key)) return found;
    if (dict->type == default_dict_type()) return missing_item(*this, dict, key);
    raise_key_error(*this, key);
  }
  if (value->kind == Kind::Constant) {
    PyObject* object = constant_of(value);
    Ref literal = literal_of(key);
    if (PyType_Check(object)) return class_item(*this, reinterpret_cast<PyTypeObject*>(object), key);
    if (literal && (static_cast<ConstantValue*>(value)->literal || is_known_by_identity(object))) {
      Ref result = Ref::steal(PyObject_GetItem(object, literal.get()));
      if (!result) raise_current(*this);
      return wrap_result(result.get());
    }
    if (key->kind == Kind::Tensor) throw Break{BreakId::data_dependent, "a tensor as the index of a constant"};
    if (is_number(key)) needs_number("as the index of a constant");
  }
  static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
  CallArgs args;
  args.positional = {key};
  return call(type_method(*this, value, getitem), std::move(args));
}

/// The tensor that the binding makes of a number that is stored into `fake`: it writes it by pointer, so it is a
/// constant.
static Ref number_like(Interpreter& in, PyObject* fake, PyObject* number) {
  Ref dtype = Ref::steal(PyObject_GetAttrString(fake, "dtype")),
      device = Ref::steal(PyObject_GetAttrString(fake, "device"));
  Ref shape = Ref::steal(PyTuple_New(0));
  Ref arguments = Ref::steal(PyTuple_Pack(1, shape.get())), options = Ref::steal(PyDict_New());
  PyDict_SetItemString(options.get(), "dtype", dtype.get());
  PyDict_SetItemString(options.get(), "device", device.get());
  Ref made = Ref::steal(PyObject_Call(known_object("torch.zeros"), arguments.get(), options.get()));
  // Stored as the binding does it, which has numbers that it refuses.
  if (!made || PyObject_SetItem(made.get(), shape.get(), number) < 0)
    throw Break{BreakId::torch_error, take_error_text()};
  in.locate();
  Ref constant = in.torch.add_constant(made.get());
  if (!constant) throw Break{BreakId::torch_refused, in.torch.failure()};
  return constant;
}

void set_tensor_item(Interpreter& in, TensorValue* tensor, Value* key, Value* to) {
  auto store = [](PyObject* const* x) -> PyObject* {
    if (PyObject_SetItem(x[0], x[1], x[2]) < 0) return nullptr;
    Py_RETURN_NONE;
  };
  const char* what = "subscript assignment";
  Value* const all[] = {tensor, key, to};
  if (is_overridden(in, tensor) || is_overridden(in, key) || is_overridden(in, to)) {
    in.apply(all, what, store);
    return;
  }
  if (Value* view = subscript_by_numbers(in, tensor, key))
    return set_tensor_item(in, static_cast<TensorValue*>(view), in.constant(Py_Ellipsis), to);
  Ref index = tensor_key(in, key);
  PyObject* fake = in.fake_of(tensor);
  if (is_number(to)) needs_number("is stored into a tensor");
  Ref stored = to->kind == Kind::Constant ? number_like(in, fake, in.constant_of(to)) : in.to_torch(to);
  PyObject* const objects[] = {fake, index.get(), stored.get()};
  in.torch_result([&] { return store(objects); }, what);
}

void Interpreter::set_item(Value* value, Value* key, Value* to) {
  if (value->kind == Kind::Array) {
    array_method(*this, "__setitem__", {value, key, to});
    return;
  }
  auto* tensor = as<TensorValue>(value);
  if (tensor && !defines_anew(*this, tensor, "__setitem__")) return set_tensor_item(*this, tensor, key, to);
  if (auto* dict = as<DictValue>(value)) {
    dict_set(dict, key, to);
    mutated(dict);
    return;
  }
  if (auto* list = as_sequence(value); list && list->kind == Kind::List) {
    for (size_t i = 0; i < list->items.size(); ++i) item(list, i);
    if (auto* slice = as<SliceValue>(key)) {
      auto [start, stop, step, count] = slice_of(*this, slice, list->items.size());
      size_t size = list->items.size();
      std::vector<Value*> more = unpack(to);
      if (list->items.size() != size) throw Break{BreakId::mutation, "a list changes while a slice of it is set"};
      if (step == 1) {
        if (stop < start) stop = start;
        list->items.erase(list->items.begin() + start, list->items.begin() + stop);
        list->items.insert(list->items.begin() + start, more.begin(), more.end());
      } else {
        if (static_cast<Py_ssize_t>(more.size()) != count)
          raise(PyExc_ValueError, "attempt to assign sequence of size " + std::to_string(more.size()) +
                                      " to extended slice of size " + std::to_string(count));
        for (Py_ssize_t i = 0; i < count; ++i) list->items[start + i * step] = more[i];
      }
    } else {
      Py_ssize_t at = index_of(*this, key), size = list->items.size();
      if (at < 0) at += size;
      if (at < 0 || at >= size) raise(PyExc_IndexError, "list assignment index out of range");
      list->items[at] = to;
    }
    mutated(list);
    return;
  }
  static PyObject* const setitem = PyUnicode_InternFromString("__setitem__");
  CallArgs args;
  args.positional = {key, to};
  call(type_method(*this, value, setitem), std::move(args));
}

void Interpreter::del_item(Value* value, Value* key) {
  if (auto* dict = as<DictValue>(value)) {
    if (!dict_delete(dict, key)) raise_key_error(*this, key);
    mutated(dict);
    return;
  }
  if (auto* list = as_sequence(value); list && list->kind == Kind::List) {
    for (size_t i = 0; i < list->items.size(); ++i) item(list, i);
    if (auto* slice = as<SliceValue>(key)) {
      auto [start, stop, step, count] = slice_of(*this, slice, list->items.size());
      for (Py_ssize_t i = 0; i < count; ++i) list->items[start + i * step] = nullptr;
      std::erase(list->items, nullptr);
      if (count) mutated(list);
      return;
    }
    Py_ssize_t at = index_of(*this, key), size = list->items.size();
    if (at < 0) at += size;
    if (at < 0 || at >= size) raise(PyExc_IndexError, "list assignment index out of range");
    list->items.erase(list->items.begin() + at);
    mutated(list);
    return;
  }
  static PyObject* const delitem = PyUnicode_InternFromString("__delitem__");
  CallArgs args;
  args.positional = {key};
  call(type_method(*this, value, delitem), std::move(args));
}

}  // namespace stator::capture
