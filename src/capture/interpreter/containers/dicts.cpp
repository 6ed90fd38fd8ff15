#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/protocol/mappings.h"

#include "capture/guards/elements.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/containers/merging.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/reach.h"

namespace stator::capture {
namespace {

/// The index of the key's entry; empty if there is none.
std::optional<size_t> find_entry(Interpreter& in, DictValue* dict, Value* key, Py_hash_t hash) {
  auto [first, last] = dict->index.equal_range(hash);
  const uint64_t changes = in.effects.changes();
  for (; first != last; ++first) {
    DictValue::Entry& entry = dict->entries[first->second];
    const bool same = entry.key && same_key(in, entry.key, key);
    // If an `__eq__` of the program changes the dict, CPython starts the lookup again.
    if (in.effects.changes() != changes) throw Break{BreakId::mutation, "an __eq__ that changes containers"};
    if (same) return first->second;
  }
  // Guard that the key is none of the keys that compare by identity: a later call may pass one of them.
  Value* asked = identity_of_key(in, key);
  if (asked && asked->source)
    for (DictValue::Entry& entry : dict->entries) {
      // A weak reference never equals another object.
      Value* known = entry.key && is_weak(entry.key) == is_weak(key) ? identity_of_key(in, entry.key) : nullptr;
      if (known && known->source) in.is_same(known, asked);
    }
  return std::nullopt;
}

/// The key as the name of a global, if the dict is a module's globals and the key is a str; null otherwise.
PyObject* global_name(Interpreter& in, DictValue* dict, Value* key) {
  PyObject* name = key->kind == Kind::Constant ? in.constant_of(key) : nullptr;
  return dict->is_globals && name && PyUnicode_CheckExact(name) ? name : nullptr;
}

/// Whether a later call finds the key by its position: keys that are hashed by identity, such as the parameters in the
/// state of an optimizer, are other objects for other instances.
bool is_found_by_place(PyObject* dict, PyObject* key) {
  return !PyODict_Check(dict) && !PyTuple_Check(key) && !is_literal(key) && !is_guarded_by_identity(key);
}

Value* key_at(Interpreter& in, DictValue* dict, Py_ssize_t index, PyObject* key) {
  // What a weak reference refers to is looked at where it is hashed.
  if (!PyWeakref_CheckRefExact(key)) refuse_own_hash(key);
  Source* source =
      in.guards.sources().child(dict->source, SourceKind::DictKey, static_cast<int32_t>(index), nullptr, key);
  in.guards.add_type(source, Py_TYPE(key));
  in.guards.add_class(Py_TYPE(key));
  return in.wrap(key, source);
}

}  // namespace

void Interpreter::realise(DictValue* dict) {
  if (dict->is_globals && effects.globals_written.count(dict->external.get()))
    throw Break{BreakId::mutation, "globals that the program wrote to are looked through"};
  if (!dict->external || dict->mutated) return;
  if (!dict->entries.empty() || PyDict_GET_SIZE(dict->external.get()) == 0) {
    if (dict->entries.empty()) guards.add(dict->source, FactKind::Length, nullptr, 0);
    return;
  }
  PyObject* object = dict->external.get();
  // Iterate and don't read the table: an OrderedDict keeps its own order.
  Ref iterator = Ref::steal(PyDict_Check(object) && PyODict_Check(object) ? PyODict_Type.tp_iter(object)
                                                                          : PyDict_Type.tp_iter(object));
  Ref keys = Ref::steal(PySequence_Tuple(iterator.get()));
  // If it was written to as a plain dict (it may be some instance's `__dict__`), items are missing in its order.
  if (!keys || PyTuple_GET_SIZE(keys.get()) != PyDict_GET_SIZE(object)) {
    PyErr_Clear();
    throw Break{BreakId::unknown_object, "an OrderedDict with items that are not in its order"};
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    const bool by_place = is_found_by_place(object, key);
    Value* known_key = by_place ? key_at(*this, dict, i, key) : external_element(*this, key);
    if (by_place) PyTuple_SetItem(keys.get(), i, Ref::borrow(any_element()).release());
    dict->index.emplace(key_hash(*this, known_key), dict->entries.size());
    dict->entries.push_back({known_key, nullptr});
  }
  dict->live = dict->entries.size();
  guards.add(dict->source, FactKind::Keys, keys.get());
}

void realise_all(Interpreter& in, DictValue* dict) {
  in.realise(dict);
  if (dict->external && !dict->mutated)
    for (size_t i = 0; i < dict->entries.size(); ++i)
      if (dict->entries[i].key) in.entry_value(dict, i);
}

Value* Interpreter::entry_value(DictValue* dict, size_t index) {
  DictValue::Entry& entry = dict->entries[index];
  if (!entry.value) {
    Ref key = external_key(*this, entry.key);
    PyObject* found = PyDict_GetItemWithError(dict->external.get(), key.get());
    if (!found) throw Break{BreakId::internal, "an external dict changed during capture"};
    Source* source =
        is_found_by_place(dict->external.get(), key.get())
            ? guards.sources().child(dict->source, SourceKind::DictValue, static_cast<int32_t>(index), nullptr, found)
            : guards.sources().child(dict->source, SourceKind::DictItem, 0, key.get(), found);
    entry.value = wrap(found, source);
  }
  return entry.value;
}

Value* Interpreter::dict_get(DictValue* dict, Value* key) {
  if (PyObject* global = global_name(*this, dict, key))
    if (auto written = written_global(*this, dict->external.get(), global)) return *written;
  Py_hash_t hash = key_hash(*this, key);
  PyObject* name = key->kind == Kind::Constant ? constant_of(key) : nullptr;
  if (dict->external && !dict->mutated && dict->entries.empty() && name &&
      (PyUnicode_CheckExact(name) || PyBytes_CheckExact(name))) {
    // Only this key of the external dict is guarded.
    PyObject* found = plain_item(dict->external.get(), name);
    if (!found) {
      guards.add(dict->source, FactKind::Absent, name);
      return nullptr;
    }
    return wrap(found, guards.sources().child(dict->source, SourceKind::DictItem, 0, name, found));
  }
  realise(dict);
  auto found = find_entry(*this, dict, key, hash);
  return found ? entry_value(dict, *found) : nullptr;
}

void Interpreter::dict_set(DictValue* dict, Value* key, Value* value) {
  if (PyObject* global = global_name(*this, dict, key)) return store_global(*this, dict->external.get(), global, value);
  Py_hash_t hash = key_hash(*this, key);
  if (dict->external && !dict->mutated) {
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

bool Interpreter::dict_delete(DictValue* dict, Value* key) {
  if (PyObject* global = global_name(*this, dict, key)) {
    if (!dict_get(dict, key)) return false;
    store_global(*this, dict->external.get(), global, nullptr);
    return true;
  }
  Py_hash_t hash = key_hash(*this, key);
  if (dict->external && !dict->mutated) {
    realise_all(*this, dict);
    dict->mutated = true;
  }
  auto found = find_entry(*this, dict, key, hash);
  if (!found) return false;
  dict->entries[*found] = {};
  --dict->live;
  return true;
}

Value* dict_put_new(Interpreter& in, DictValue* dict, Value* key, Value* value) {
  if (!hash_runs_user_code(in, key)) {
    if (Value* found = in.dict_get(dict, key)) return found;
    in.dict_set(dict, key, value);
    return nullptr;
  }
  Py_hash_t hash = key_hash(in, key);
  realise_all(in, dict);
  if (auto found = find_entry(in, dict, key, hash)) return in.entry_value(dict, *found);
  if (dict->external) dict->mutated = true;
  dict->index.emplace(hash, dict->entries.size());
  dict->entries.push_back({key, value});
  ++dict->live;
  return nullptr;
}

Value* dict_take(Interpreter& in, DictValue* dict, Value* key) {
  if (!hash_runs_user_code(in, key)) {
    Value* found = in.dict_get(dict, key);
    if (found) in.dict_delete(dict, key);
    return found;
  }
  // CPython does not hash the key if the dict is empty.
  if (*in.length_of(dict) == 0) return nullptr;
  Py_hash_t hash = key_hash(in, key);
  realise_all(in, dict);
  auto found = find_entry(in, dict, key, hash);
  if (!found) return nullptr;
  Value* value = in.entry_value(dict, *found);
  if (dict->external) dict->mutated = true;
  dict->entries[*found] = {};
  --dict->live;
  return value;
}

DictValue* Interpreter::dict_part(Value* value) {
  if (auto* dict = as<DictValue>(value)) return dict;
  if (auto* object = as<ObjectValue>(value)) {
    // The base of a proxy or weak reference is what it refers to, not a part of it.
    if (object->type == &PyDictProxy_Type || is_made_weak(object)) return nullptr;
    if (!object->base && object->object && PyDict_Check(object->object.get())) {
      // The dict storage of an instance of a dict subclass.
      auto* dict = arena.make<DictValue>(PyODict_Check(object->object.get()) ? &PyODict_Type : &PyDict_Type);
      dict->external = object->object;
      dict->source = object->source;
      object->base = dict;
    }
    return as<DictValue>(object->base);
  }
  return nullptr;
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
  if (!dict->default_factory && dict->external) {
    static PyObject* const name = PyUnicode_InternFromString("default_factory");
    Ref factory = Ref::steal(PyObject_GetAttr(dict->external.get(), name));
    if (!factory) throw Break{BreakId::raises, take_error_text()};
    dict->default_factory = in.wrap(factory.get(), in.guards.sources().child(dict->source, SourceKind::Attribute,
                                                                             kClassField, name, factory.get()));
  }
  return dict->default_factory ? dict->default_factory : in.none();
}

Value* missing_item(Interpreter& in, DictValue* dict, Value* key) {
  Value* factory = default_factory(in, dict);
  if (in.is_same(factory, in.none())) raise_key_error(in, key);
  Value* made = in.call(factory, {});
  in.dict_set(dict, key, made);
  in.mutated(dict);
  return made;
}

Value* make_proxy(Interpreter& in, Value* mapping) {
  auto* proxy = in.arena.make<ObjectValue>(&PyDictProxy_Type);
  proxy->base = mapping;
  return proxy;
}

}  // namespace stator::capture
