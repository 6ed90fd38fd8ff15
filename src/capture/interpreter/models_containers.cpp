// Methods of list, tuple, dict, set and OrderedDict, on values of those kinds and on instances of their subclasses.
#include <algorithm>

#include "capture/guards/literals.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/iterators.h"
#include "capture/interpreter/known_types.h"

namespace stator::capture {

void sort_list(Interpreter& in, SequenceValue* list, Value* key, Value* reverse) {
  std::vector<std::pair<Value*, Value*>> ranked;  // rank, item
  bool keyed = key && !in.is_same(key, in.none());
  for (size_t i = 0; i < list->items.size(); ++i) {
    Value* item = in.item(list, i);
    CallArgs args;
    args.positional = {item};
    ranked.emplace_back(keyed ? in.call(key, std::move(args)) : item, item);
  }
  bool descending = reverse && in.truth(reverse);
  if (descending) std::reverse(ranked.begin(), ranked.end());
  // Ranks are asked for with `<` only; a program that sees the comparisons themselves is none we can capture.
  for (auto& [rank, item] : ranked)
    if (!in.literal_of(rank)) throw Break{BreakId::unknown_object, "sorting by something that is no literal"};
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](auto& a, auto& b) { return in.truth(in.compare(Py_LT, a.first, b.first)); });
  if (descending) std::reverse(ranked.begin(), ranked.end());
  for (size_t i = 0; i < ranked.size(); ++i) list->items[i] = ranked[i].second;
}

namespace {

Value* at(const CallArgs& args, size_t index) {
  if (index >= args.positional.size()) throw Break{BreakId::raises, "a method called with too few arguments"};
  return args.positional[index];
}
Value* at_or(const CallArgs& args, size_t index, Value* fallback) {
  return index < args.positional.size() ? args.positional[index] : fallback;
}

SequenceValue* list_self(Interpreter& in, CallArgs& args) {
  SequenceValue* list = in.list_part(at(args, 0));
  if (!list) throw Break{BreakId::raises, "a list method on something else"};
  for (size_t i = 0; i < list->items.size(); ++i) in.item(list, i);
  return list;
}
DictValue* dict_self(Interpreter& in, CallArgs& args) {
  DictValue* dict = in.dict_part(at(args, 0));
  if (!dict) throw Break{BreakId::raises, "a dict method on something else"};
  return dict;
}
SetValue* set_self(CallArgs& args) {
  auto* set = as<SetValue>(at(args, 0));
  if (!set) throw Break{BreakId::raises, "a set method on something else"};
  return set;
}
Py_ssize_t index_of(Interpreter& in, Value* value) {
  PyObject* object = in.constant_of(value);
  if (!object || !PyIndex_Check(object)) throw Break{BreakId::raises, "an index that is no int"};
  return PyNumber_AsSsize_t(object, nullptr);
}
[[noreturn]] void key_error(Interpreter& in, Value* key) {
  Ref literal = in.literal_of(key);
  Ref error = Ref::steal(PyObject_CallOneArg(PyExc_KeyError, literal ? literal.get() : Py_None));
  throw Raise{in.constant(std::move(error))};
}

// ---- list and tuple

Value* list_append(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  list->items.push_back(at(args, 1));
  in.mutated(list);
  return in.none();
}
Value* list_extend(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  std::vector<Value*> more = in.unpack(at(args, 1));
  list->items.insert(list->items.end(), more.begin(), more.end());
  in.mutated(list);
  return in.none();
}
Value* list_insert(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  Py_ssize_t where = index_of(in, at(args, 1)), size = list->items.size();
  if (where < 0) where = std::max<Py_ssize_t>(0, where + size);
  list->items.insert(list->items.begin() + std::min(where, size), at(args, 2));
  in.mutated(list);
  return in.none();
}
Value* list_pop(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  Py_ssize_t size = list->items.size(), where = args.positional.size() > 1 ? index_of(in, args.positional[1]) : -1;
  if (size == 0) in.raise(PyExc_IndexError, "pop from empty list");
  if (where < 0) where += size;
  if (where < 0 || where >= size) in.raise(PyExc_IndexError, "pop index out of range");
  Value* item = list->items[where];
  list->items.erase(list->items.begin() + where);
  in.mutated(list);
  return item;
}
Py_ssize_t position_of(Interpreter& in, SequenceValue* list, Value* wanted) {
  for (size_t i = 0; i < list->items.size(); ++i) {
    Value* item = in.item(list, i);
    if (item == wanted || in.truth(in.compare(Py_EQ, item, wanted))) return i;
  }
  return -1;
}
Value* list_remove(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  Py_ssize_t where = position_of(in, list, at(args, 1));
  if (where < 0) in.raise(PyExc_ValueError, "list.remove(x): x not in list");
  list->items.erase(list->items.begin() + where);
  in.mutated(list);
  return in.none();
}
Value* sequence_index(Interpreter& in, CallArgs& args) {
  if (args.positional.size() > 2) throw Break{BreakId::unknown_call, "index with bounds"};
  Py_ssize_t where = position_of(in, list_self(in, args), at(args, 1));
  if (where < 0) in.raise(PyExc_ValueError, "x not in sequence");
  return in.integer(where);
}
Value* sequence_count(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  int64_t count = 0;
  for (Value* item : list->items)
    if (item == at(args, 1) || in.truth(in.compare(Py_EQ, item, args.positional[1]))) ++count;
  return in.integer(count);
}
Value* list_reverse(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  std::reverse(list->items.begin(), list->items.end());
  in.mutated(list);
  return in.none();
}
Value* list_sort(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  sort_list(in, list, args.keyword("key"), args.keyword("reverse"));
  in.mutated(list);
  return in.none();
}
Value* list_clear(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  list->items.clear();
  in.mutated(list);
  return in.none();
}
Value* list_copy(Interpreter& in, CallArgs& args) { return in.list(list_self(in, args)->items); }
Value* sequence_getitem(Interpreter& in, CallArgs& args) { return in.get_item(list_self(in, args), at(args, 1)); }
Value* list_setitem(Interpreter& in, CallArgs& args) {
  in.set_item(list_self(in, args), at(args, 1), at(args, 2));
  return in.none();
}
Value* sequence_len(Interpreter& in, CallArgs& args) { return in.integer(list_self(in, args)->items.size()); }
Value* sequence_iter(Interpreter& in, CallArgs& args) { return in.iterate(list_self(in, args)); }
Value* sequence_contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.contains(list_self(in, args), at(args, 1)));
}
Value* list_init(Interpreter& in, CallArgs& args) {
  SequenceValue* list = list_self(in, args);
  list->items = args.positional.size() > 1 ? in.unpack(args.positional[1]) : std::vector<Value*>{};
  return in.none();
}
Value* tuple_new(Interpreter& in, CallArgs& args) {
  PyObject* cls = in.constant_of(at(args, 0));
  if (!cls || !PyType_Check(cls)) throw Break{BreakId::unknown_call, "tuple.__new__"};
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (type != &PyTuple_Type && !is_named_tuple(type))
    throw Break{BreakId::unknown_call, "an instance of a tuple subclass"};
  SequenceValue* made = in.tuple(args.positional.size() > 1 ? in.unpack(args.positional[1]) : std::vector<Value*>{});
  made->type = type;
  return made;
}

// ---- dict

Value* dict_get(Interpreter& in, CallArgs& args) {
  Value* found = in.dict_get(dict_self(in, args), at(args, 1));
  if (found) return found;
  Value* fallback = at_or(args, 2, args.keyword("default"));
  return fallback ? fallback : in.none();
}
Value* dict_getitem(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  if (Value* found = in.dict_get(dict, at(args, 1))) return found;
  if (args.positional[0]->kind == Kind::Object) {
    static PyObject* const missing = PyUnicode_InternFromString("__missing__");
    if (_PyType_Lookup(in.type_of(args.positional[0]), missing)) {
      CallArgs one;
      one.positional = {args.positional[1]};
      return in.call(type_method(in, args.positional[0], missing), std::move(one));
    }
    key_error(in, args.positional[1]);
  }
  return in.get_item(dict, args.positional[1]);
}
/// Writes into an outside instance of a dict subclass cannot be replayed as a dict's.
void written(Interpreter& in, CallArgs& args, DictValue* dict) {
  auto* object = as<ObjectValue>(args.positional[0]);
  if (object && object->object) throw Break{BreakId::mutation, "an outside instance of a dict subclass is written to"};
  in.mutated(dict);
}
Value* dict_setitem(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  in.dict_set(dict, at(args, 1), at(args, 2));
  written(in, args, dict);
  return in.none();
}
Value* dict_delitem(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  if (!in.dict_delete(dict, at(args, 1))) key_error(in, args.positional[1]);
  written(in, args, dict);
  return in.none();
}
Value* dict_keys(Interpreter& in, CallArgs& args) {
  return in.arena.make<ViewValue>(dict_self(in, args), ViewValue::Part::Keys);
}
Value* dict_values(Interpreter& in, CallArgs& args) {
  return in.arena.make<ViewValue>(dict_self(in, args), ViewValue::Part::Values);
}
Value* dict_items(Interpreter& in, CallArgs& args) {
  return in.arena.make<ViewValue>(dict_self(in, args), ViewValue::Part::Items);
}
Value* dict_pop(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  Value* found = in.dict_get(dict, at(args, 1));
  if (!found) {
    Value* fallback = at_or(args, 2, args.keyword("default"));
    if (fallback) return fallback;
    key_error(in, args.positional[1]);
  }
  in.dict_delete(dict, args.positional[1]);
  written(in, args, dict);
  return found;
}
Value* dict_popitem(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  auto items = mapping_items(in, dict);
  if (items.empty()) in.raise(PyExc_KeyError, "popitem(): dictionary is empty");
  in.dict_delete(dict, items.back().first);
  written(in, args, dict);
  return in.tuple({items.back().first, items.back().second});
}
Value* dict_setdefault(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  if (Value* found = in.dict_get(dict, at(args, 1))) return found;
  Value* fallback = at_or(args, 2, in.none());
  in.dict_set(dict, args.positional[1], fallback);
  written(in, args, dict);
  return fallback;
}
Value* dict_update(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  bool changed = false;
  if (args.positional.size() > 1)
    for (auto& [key, value] : mapping_items(in, args.positional[1])) {
      in.dict_set(dict, key, value);
      changed = true;
    }
  for (auto& [name, value] : args.keywords) {
    in.dict_set(dict, in.constant(name), value);
    changed = true;
  }
  if (changed) written(in, args, dict);
  return in.none();
}
Value* dict_copy(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  auto* copy = in.arena.make<DictValue>(dict->type == default_dict_type() ? default_dict_type() : dict->type);
  copy->default_factory = dict->default_factory;
  if (copy->type == default_dict_type() && dict->outside)
    throw Break{BreakId::unknown_call, "copy of an outside defaultdict"};
  for (auto& [key, value] : mapping_items(in, dict)) in.dict_set(copy, key, value);
  return copy;
}
Value* dict_clear(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  auto items = mapping_items(in, dict);
  for (auto& [key, unused] : items) in.dict_delete(dict, key);
  if (!items.empty()) written(in, args, dict);
  return in.none();
}
Value* dict_len(Interpreter& in, CallArgs& args) { return in.integer(*in.length_of(dict_self(in, args))); }
Value* dict_contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.dict_get(dict_self(in, args), at(args, 1)) != nullptr);
}
Value* dict_iter(Interpreter& in, CallArgs& args) { return in.iterate(dict_self(in, args)); }
Value* dict_init(Interpreter& in, CallArgs& args) { return dict_update(in, args); }
Value* odict_move_to_end(Interpreter& in, CallArgs& args) {
  DictValue* dict = dict_self(in, args);
  Value* last = at_or(args, 2, args.keyword("last"));
  if (last && !in.truth(last)) throw Break{BreakId::unknown_call, "move_to_end(last=False)"};
  Value* found = in.dict_get(dict, at(args, 1));
  if (!found) key_error(in, args.positional[1]);
  in.dict_delete(dict, args.positional[1]);
  in.dict_set(dict, args.positional[1], found);
  written(in, args, dict);
  return in.none();
}
Value* dict_new(Interpreter& in, CallArgs& args) {
  PyObject* cls = in.constant_of(at(args, 0));
  if (!cls || !PyType_Check(cls)) throw Break{BreakId::unknown_call, "__new__ of something that is no class"};
  return new_instance(in, reinterpret_cast<PyTypeObject*>(cls));
}

// ---- set

Value* set_add(Interpreter& in, CallArgs& args) {
  add_to_set(in, set_self(args), at(args, 1));
  in.mutated(set_self(args));
  return in.none();
}
Value* set_discard(Interpreter& in, CallArgs& args) {
  Ref element = in.literal_of(at(args, 1));
  if (!element) throw Break{BreakId::unknown_object, "a set element that is no literal"};
  PySet_Discard(set_self(args)->elements.get(), element.get());
  PyErr_Clear();
  in.mutated(set_self(args));
  return in.none();
}
Value* set_update(Interpreter& in, CallArgs& args) {
  for (size_t i = 1; i < args.positional.size(); ++i)
    for (Value* item : in.unpack(args.positional[i])) add_to_set(in, set_self(args), item);
  in.mutated(set_self(args));
  return in.none();
}
Value* set_contains(Interpreter& in, CallArgs& args) { return in.boolean(in.contains(at(args, 0), at(args, 1))); }
template <int op>
Value* set_binary(Interpreter& in, CallArgs& args) {
  Value* result = at(args, 0);
  for (size_t i = 1; i < args.positional.size(); ++i)
    result = in.binary(op, result, make_set(in, in.unpack(args.positional[i]), &PySet_Type));
  return result;
}

// ---- object

Value* object_setattr(Interpreter& in, CallArgs& args) {
  auto* object = as<ObjectValue>(at(args, 0));
  PyObject* name = in.constant_of(at(args, 1));
  if (!object || !name || !PyUnicode_Check(name)) throw Break{BreakId::mutation, "object.__setattr__"};
  plain_set_attr(in, object, name, at(args, 2));
  return in.none();
}
Value* object_init(Interpreter& in, CallArgs&) { return in.none(); }
Value* object_getattribute(Interpreter& in, CallArgs& args) {
  PyObject* name = in.constant_of(at(args, 1));
  if (!name || !PyUnicode_Check(name)) throw Break{BreakId::raises, "attribute name must be string"};
  auto* object = as<ObjectValue>(at(args, 0));
  if (!object) return in.get_attr(at(args, 0), name);
  if (Value* found = generic_attr(in, object, name)) return found;
  in.raise(PyExc_AttributeError,
           std::string("'") + object->type->tp_name + "' object has no attribute '" + PyUnicode_AsUTF8(name) + "'");
}
Value* object_eq(Interpreter& in, CallArgs& args) { return in.boolean(in.is_same(at(args, 0), at(args, 1))); }
Value* generator_next(Interpreter& in, CallArgs& args) {
  Value* item = in.next(at(args, 0));
  if (item) return item;
  Ref stop = Ref::steal(PyObject_CallNoArgs(PyExc_StopIteration));
  throw Raise{in.constant(std::move(stop))};
}

constexpr ModelRow kRows[] = {
    {"builtins.list.append", list_append},
    {"builtins.list.extend", list_extend},
    {"builtins.list.insert", list_insert},
    {"builtins.list.pop", list_pop},
    {"builtins.list.remove", list_remove},
    {"builtins.list.index", sequence_index},
    {"builtins.list.count", sequence_count},
    {"builtins.list.reverse", list_reverse},
    {"builtins.list.sort", list_sort},
    {"builtins.list.clear", list_clear},
    {"builtins.list.copy", list_copy},
    {"builtins.list.__getitem__", sequence_getitem},
    {"builtins.list.__setitem__", list_setitem},
    {"builtins.list.__len__", sequence_len},
    {"builtins.list.__iter__", sequence_iter},
    {"builtins.list.__contains__", sequence_contains},
    {"builtins.list.__init__", list_init},
    {"builtins.tuple.index", sequence_index},
    {"builtins.tuple.count", sequence_count},
    {"builtins.tuple.__getitem__", sequence_getitem},
    {"builtins.tuple.__len__", sequence_len},
    {"builtins.tuple.__iter__", sequence_iter},
    {"builtins.tuple.__contains__", sequence_contains},
    {"builtins.tuple.__new__", tuple_new},
    {"builtins.dict.get", dict_get},
    {"builtins.dict.__getitem__", dict_getitem},
    {"builtins.dict.__setitem__", dict_setitem},
    {"builtins.dict.__delitem__", dict_delitem},
    {"builtins.dict.keys", dict_keys},
    {"builtins.dict.values", dict_values},
    {"builtins.dict.items", dict_items},
    {"builtins.dict.pop", dict_pop},
    {"builtins.dict.popitem", dict_popitem},
    {"builtins.dict.setdefault", dict_setdefault},
    {"builtins.dict.update", dict_update},
    {"builtins.dict.copy", dict_copy},
    {"builtins.dict.clear", dict_clear},
    {"builtins.dict.__len__", dict_len},
    {"builtins.dict.__contains__", dict_contains},
    {"builtins.dict.__iter__", dict_iter},
    {"builtins.dict.__init__", dict_init},
    {"builtins.dict.__new__", dict_new},
    {"collections.OrderedDict.__setitem__", dict_setitem},
    {"collections.OrderedDict.__delitem__", dict_delitem},
    {"collections.OrderedDict.keys", dict_keys},
    {"collections.OrderedDict.values", dict_values},
    {"collections.OrderedDict.items", dict_items},
    {"collections.OrderedDict.pop", dict_pop},
    {"collections.OrderedDict.setdefault", dict_setdefault},
    {"collections.OrderedDict.update", dict_update},
    {"collections.OrderedDict.copy", dict_copy},
    {"collections.OrderedDict.clear", dict_clear},
    {"collections.OrderedDict.__iter__", dict_iter},
    {"collections.OrderedDict.__init__", dict_init},
    {"collections.OrderedDict.move_to_end", odict_move_to_end},
    {"builtins.set.add", set_add},
    {"builtins.set.discard", set_discard},
    {"builtins.set.update", set_update},
    {"builtins.set.__contains__", set_contains},
    {"builtins.frozenset.__contains__", set_contains},
    {"builtins.set.union", set_binary<7>},
    {"builtins.set.intersection", set_binary<1>},
    {"builtins.set.difference", set_binary<10>},
    {"builtins.frozenset.union", set_binary<7>},
    {"builtins.frozenset.intersection", set_binary<1>},
    {"builtins.frozenset.difference", set_binary<10>},
    {"builtins.object.__setattr__", object_setattr},
    {"builtins.object.__init__", object_init},
    {"builtins.object.__getattribute__", object_getattribute},
    {"builtins.object.__new__", dict_new},
    {"builtins.object.__eq__", object_eq},
    {"types.GeneratorType.__next__", generator_next},
};

}  // namespace

std::span<const ModelRow> container_models() { return kRows; }

}  // namespace stator::capture
