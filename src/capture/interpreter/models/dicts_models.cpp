// Methods of dict, OrderedDict, defaultdict and read-only views of mappings, on values of that kind and on instances of
// their subclasses.
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/containers/merging.h"
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

DictValue* self_of(Interpreter& in, CallArgs& args) {
  DictValue* dict = in.dict_part(args.positional[0]);
  if (!dict) throw Break{BreakId::unknown_call, "a dict method on an object that is not a dict"};
  return dict;
}

/// Breaks if a subclass overrides one of `names`, which the C implementation of the method calls.
void refuse_overridden(Interpreter& in, Value* self, PyTypeObject* base, std::initializer_list<const char*> names) {
  PyTypeObject* type = in.type_of(self);
  if (type == base) return;
  in.guards.add_class(type);
  for (const char* name : names)
    if (class_lookup(type, name) != class_lookup(base, name))
      throw Break{BreakId::unknown_call, std::string("a method of a dict subclass that has its own ") + name};
}

Value* get(Interpreter& in, CallArgs& args) {
  if (Value* found = in.dict_get(self_of(in, args), args.positional[1])) return found;
  return args.positional.size() > 2 ? args.positional[2] : in.none();
}
Value* get_item(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  Value *self = args.positional[0], *key = args.positional[1];
  if (self->kind != Kind::Object) return in.get_item(dict, key);
  if (Value* found = in.dict_get(dict, key)) return found;
  static PyObject* const missing = PyUnicode_InternFromString("__missing__");
  if (!look_up(in.type_of(self), missing)) raise_key_error(in, key);
  return in.call(type_method(in, self, missing), arguments({key}));
}
Value* set_item(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  in.dict_set(dict, args.positional[1], args.positional[2]);
  in.mutated(dict);
  return in.none();
}
Value* del_item(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  if (!in.dict_delete(dict, args.positional[1])) raise_key_error(in, args.positional[1]);
  in.mutated(dict);
  return in.none();
}
template <ViewValue::Part part>
Value* view(Interpreter& in, CallArgs& args) {
  return in.arena.make<ViewValue>(self_of(in, args), part);
}
/// Raises the KeyError of OrderedDict.pop and move_to_end: a key that is a tuple becomes the exception's arguments.
[[noreturn]] void raise_loose_key_error(Interpreter& in, Value* key) {
  std::vector<Value*> args = {key};
  PyTypeObject* type = in.type_of(key);
  if (PyType_IsSubtype(type, &PyTuple_Type)) args = in.unpack(key);
  if (type == Py_TYPE(Py_None)) args.clear();
  if (is_exception_class(type)) throw Break{BreakId::raises, "an exception as a missing key"};
  raise_exception(in, make_exception(in, reinterpret_cast<PyTypeObject*>(PyExc_KeyError), std::move(args)), nullptr);
}

Value* pop(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  Value* found = dict_take(in, dict, args.positional[1]);
  if (!found) {
    if (Value* fallback = argument(args, 2, "default")) return fallback;
    if (dict->type == &PyODict_Type) raise_loose_key_error(in, args.positional[1]);
    raise_key_error(in, args.positional[1]);
  }
  in.mutated(dict);
  return found;
}
Value* pop_item(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  auto items = items_to_put(in, dict);
  Value* last = argument(args, 1, "last");
  if (items.empty())
    in.raise(PyExc_KeyError, dict->type == &PyODict_Type ? "dictionary is empty" : "popitem(): dictionary is empty");
  auto [key, value] = last && !in.truth(last) ? items.front() : items.back();
  in.dict_delete(dict, key);
  in.mutated(dict);
  return in.tuple({key, value});
}
Value* set_default(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  Value* fallback = argument(args, 2, "default");
  if (!fallback) fallback = in.none();
  if (Value* found = dict_put_new(in, dict, args.positional[1], fallback)) return found;
  in.mutated(dict);
  return fallback;
}
template <auto each>
Value* update(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  if (args.positional.size() > 1) merge_items(in, dict, args.positional[1], each);
  for (auto& [name, value] : args.keywords) in.dict_set(dict, in.constant(name), value);
  if (!args.keywords.empty()) in.mutated(dict);
  return in.none();
}
Value* copy(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  // copy() of OrderedDict and defaultdict returns an instance of the same class.
  PyTypeObject* type = in.type_of(args.positional[0]);
  if (args.positional[0]->kind == Kind::Object &&
      (PyType_IsSubtype(type, &PyODict_Type) || PyType_IsSubtype(type, default_dict_type())))
    throw Break{BreakId::unknown_call, "a copy of an instance of a dict subclass"};
  auto* made = in.arena.make<DictValue>(dict->type);
  if (dict->type == default_dict_type()) made->default_factory = default_factory(in, dict);
  for (auto& [key, value] : items_to_put(in, dict)) in.dict_set(made, key, value);
  return made;
}
Value* clear(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  auto items = items_to_put(in, dict);
  for (auto& [key, unused] : items) in.dict_delete(dict, key);
  if (!items.empty()) in.mutated(dict);
  return in.none();
}
Value* length(Interpreter& in, CallArgs& args) { return in.integer(*in.length_of(self_of(in, args))); }
Value* contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.dict_get(self_of(in, args), args.positional[1]) != nullptr);
}
Value* iterate(Interpreter& in, CallArgs& args) { return in.iterate(self_of(in, args)); }
Value* reversed(Interpreter& in, CallArgs& args) { return reversed_items(in, self_of(in, args)); }

Value* move_to_end(Interpreter& in, CallArgs& args) {
  DictValue* dict = self_of(in, args);
  Value *key = args.positional[1], *last = argument(args, 2, "last");
  Value* found = in.dict_get(dict, key);
  if (!found) raise_loose_key_error(in, key);
  if (!last || in.truth(last)) {
    in.dict_delete(dict, key);
    in.dict_set(dict, key, found);
  } else {
    auto items = items_to_put(in, dict);
    in.dict_delete(dict, key);
    std::vector<std::pair<Value*, Value*>> rest;
    for (auto& [other, value] : items)
      if (in.dict_delete(dict, other)) rest.emplace_back(other, value);
    in.dict_set(dict, key, found);
    for (auto& [other, value] : rest) in.dict_set(dict, other, value);
  }
  in.mutated(dict);
  return in.none();
}

/// dict.fromkeys, which is bound to the class it is called on.
Value* from_keys(Interpreter& in, CallArgs& args) {
  Value* made = in.call(args.positional[0], {});
  Value *value = argument(args, 2, "value"), *iterator = in.iterate(args.positional[1]);
  while (Value* key = in.next(iterator)) in.set_item(made, key, value ? value : in.none());
  return made;
}

/// A plain dict with the items of the left dict, updated by the right one.
Value* merged(Interpreter& in, Value* left, Value* right) {
  DictValue* first = in.dict_part(left);
  if (!first || !in.dict_part(right)) return in.constant(Py_NotImplemented);
  if (left->kind == Kind::Dict && first->type != &PyDict_Type)
    throw Break{BreakId::unknown_call, std::string(first->type->tp_name) + ".__or__ with an instance of a subclass"};
  DictValue* made = in.dict();
  for (auto& [key, value] : items_to_put(in, first)) in.dict_set(made, key, value);
  for (auto& [key, value] : items_to_put(in, right)) in.dict_set(made, key, value);
  return made;
}
Value* merge(Interpreter& in, CallArgs& args) { return merged(in, args.positional[0], args.positional[1]); }
Value* merge_reflected(Interpreter& in, CallArgs& args) { return merged(in, args.positional[1], args.positional[0]); }
template <auto each>
Value* merge_in_place(Interpreter& in, CallArgs& args) {
  update<each>(in, args);
  return args.positional[0];
}
Value* set_default_in_order(Interpreter& in, CallArgs& args) {
  refuse_overridden(in, args.positional[0], &PyODict_Type, {"__contains__", "__getitem__", "__setitem__"});
  return set_default(in, args);
}
template <auto model>
Value* fill_in_order(Interpreter& in, CallArgs& args) {
  if (args.count() > 1) refuse_overridden(in, args.positional[0], &PyODict_Type, {"__setitem__"});
  return model(in, args);
}
template <int op>
Value* compare(Interpreter& in, CallArgs& args) {
  DictValue *a = self_of(in, args), *b = in.dict_part(args.positional[1]);
  return b ? in.compare(op, a, b) : in.constant(Py_NotImplemented);
}

/// defaultdict.__missing__: calls the factory and stores its result.
Value* missing(Interpreter& in, CallArgs& args) { return missing_item(in, self_of(in, args), args.positional[1]); }

/// collections._count_elements, which collections.Counter uses.
Value* count_elements(Interpreter& in, CallArgs& args) {
  refuse_overridden(in, args.positional[0], &PyDict_Type, {"get", "__setitem__"});
  DictValue* dict = self_of(in, args);
  bool changed = false;
  Value* iterator = in.iterate(args.positional[1]);
  while (Value* key = in.next(iterator)) {
    Value* known = in.dict_get(dict, key);
    in.dict_set(dict, key, in.binary(pycompat::kAdd, known ? known : in.integer(0), in.integer(1)));
    changed = true;
  }
  if (changed) in.mutated(dict);
  return in.none();
}

/// A dict method that OrderedDict overrides. Called on an OrderedDict, the dict method would not maintain the order.
template <auto model>
Value* of_dict(Interpreter& in, CallArgs& args) {
  if (self_of(in, args)->type == &PyODict_Type)
    throw Break{BreakId::unknown_call, "a method of dict on an OrderedDict"};
  return model(in, args);
}

// ---- types.MappingProxyType: methods are forwarded to the underlying mapping

/// The underlying mapping of a proxy; any other value itself.
Value* shown(Value* value) {
  auto* proxy = as<ObjectValue>(value);
  return proxy && proxy->type == &PyDictProxy_Type ? proxy->base : value;
}
Value* shown_by(CallArgs& args) {
  Value* mapping = shown(args.positional[0]);
  if (mapping == args.positional[0])
    throw Break{BreakId::unknown_call, "a mappingproxy method on an object that is not a mappingproxy"};
  return mapping;
}

Value* proxy_of(Interpreter& in, CallArgs& args) {
  Value* mapping = argument(args, 0, "mapping");
  if (mapping->kind != Kind::Dict && !in.dict_part(mapping))
    throw Break{BreakId::unknown_call, std::string("a mappingproxy of a ") + in.type_of(mapping)->tp_name};
  return make_proxy(in, mapping);
}

constexpr char kGet[] = "get", kAskKeys[] = "keys", kAskValues[] = "values", kAskItems[] = "items", kCopy[] = "copy",
               kReversed[] = "__reversed__";
template <const char* method>
Value* ask(Interpreter& in, CallArgs& args) {
  Value* mapping = shown_by(args);
  return in.call_method(mapping, method, {args.positional.begin() + 1, args.positional.end()});
}
Value* proxied_item(Interpreter& in, CallArgs& args) { return in.get_item(shown_by(args), args.positional[1]); }
Value* proxied_contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.contains(shown_by(args), args.positional[1]));
}
Value* proxied_length(Interpreter& in, CallArgs& args) { return in.integer(*in.length_of(shown_by(args))); }
Value* proxied_iterate(Interpreter& in, CallArgs& args) { return in.iterate(shown_by(args)); }
Value* proxied_merge(Interpreter& in, CallArgs& args) {
  return in.binary(pycompat::kOr, shown_by(args), shown(args.positional[1]));
}
Value* proxied_merge_reflected(Interpreter& in, CallArgs& args) {
  return in.binary(pycompat::kOr, shown(args.positional[1]), shown_by(args));
}
template <int op>
Value* proxied_compare(Interpreter& in, CallArgs& args) {
  return in.compare(op, shown_by(args), args.positional[1]);
}

constexpr auto kKeys = ViewValue::Part::Keys, kValues = ViewValue::Part::Values, kItems = ViewValue::Part::Items;

constexpr ModelRow kRows[] = {
    {"builtins.dict.get", get, 2, 3},
    {"builtins.dict.__getitem__", get_item, 2, 2},
    {"builtins.dict.__setitem__", of_dict<set_item>, 3, 3},
    {"builtins.dict.__delitem__", of_dict<del_item>, 2, 2},
    {"builtins.dict.keys", view<kKeys>, 1, 1},
    {"builtins.dict.values", view<kValues>, 1, 1},
    {"builtins.dict.items", view<kItems>, 1, 1},
    {"builtins.dict.pop", of_dict<pop>, 2, 3},
    {"builtins.dict.popitem", of_dict<pop_item>, 1, 1},
    {"builtins.dict.setdefault", of_dict<set_default>, 2, 3},
    {"builtins.dict.update", update<each_item>, 1, 2, "*"},
    {"builtins.dict.copy", copy, 1, 1},
    {"builtins.dict.clear", of_dict<clear>, 1, 1},
    {"builtins.dict.__len__", length, 1, 1},
    {"builtins.dict.__contains__", contains, 2, 2},
    {"builtins.dict.__iter__", iterate, 1, 1},
    {"builtins.dict.__reversed__", reversed, 1, 1},
    {"builtins.dict.__init__", update<each_item>, 1, 2, "*"},
    {"builtins.dict.__or__", merge, 2, 2},
    {"builtins.dict.__ror__", merge_reflected, 2, 2},
    {"builtins.dict.__ior__", merge_in_place<each_item>, 2, 2},
    {"builtins.dict.__eq__", compare<Py_EQ>, 2, 2},
    {"builtins.dict.__ne__", compare<Py_NE>, 2, 2},
    {"builtins.dict.fromkeys", from_keys, 2, 3},
    {"collections.OrderedDict.__setitem__", set_item, 3, 3},
    {"collections.OrderedDict.__delitem__", del_item, 2, 2},
    {"collections.OrderedDict.keys", view<kKeys>, 1, 1},
    {"collections.OrderedDict.values", view<kValues>, 1, 1},
    {"collections.OrderedDict.items", view<kItems>, 1, 1},
    {"collections.OrderedDict.pop", pop, 2, 3, "default"},
    {"collections.OrderedDict.popitem", pop_item, 1, 2, "last"},
    {"collections.OrderedDict.setdefault", set_default_in_order, 2, 3, "default"},
    {"collections.OrderedDict.update", fill_in_order<update<each_item_for_ordered>>, 1, 2, "*"},
    {"collections.OrderedDict.copy", copy, 1, 1},
    {"collections.OrderedDict.clear", clear, 1, 1},
    {"collections.OrderedDict.__iter__", iterate, 1, 1},
    {"collections.OrderedDict.__reversed__", reversed, 1, 1},
    {"collections.OrderedDict.__init__", fill_in_order<update<each_item_for_ordered>>, 1, 2, "*"},
    {"collections.OrderedDict.__eq__", compare<Py_EQ>, 2, 2},
    {"collections.OrderedDict.__ne__", compare<Py_NE>, 2, 2},
    {"collections.OrderedDict.__ior__", fill_in_order<merge_in_place<each_item_for_ordered>>, 2, 2},
    {"collections.OrderedDict.fromkeys", from_keys, 2, 3, "value"},
    {"collections.OrderedDict.move_to_end", move_to_end, 2, 3, "last"},
    {"collections.defaultdict.__missing__", missing, 2, 2},
    {"_collections._count_elements", count_elements, 2, 2},
    {"collections.defaultdict.copy", copy, 1, 1},
    {"collections.defaultdict.__copy__", copy, 1, 1},
    {"types.MappingProxyType", proxy_of, 1, 1, "mapping"},
    {"types.MappingProxyType.get", ask<kGet>, 2, 3},
    {"types.MappingProxyType.keys", ask<kAskKeys>, 1, 1},
    {"types.MappingProxyType.values", ask<kAskValues>, 1, 1},
    {"types.MappingProxyType.items", ask<kAskItems>, 1, 1},
    {"types.MappingProxyType.copy", ask<kCopy>, 1, 1},
    {"types.MappingProxyType.__reversed__", ask<kReversed>, 1, 1},
    {"types.MappingProxyType.__getitem__", proxied_item, 2, 2},
    {"types.MappingProxyType.__contains__", proxied_contains, 2, 2},
    {"types.MappingProxyType.__len__", proxied_length, 1, 1},
    {"types.MappingProxyType.__iter__", proxied_iterate, 1, 1},
    {"types.MappingProxyType.__or__", proxied_merge, 2, 2},
    {"types.MappingProxyType.__ror__", proxied_merge_reflected, 2, 2},
    {"types.MappingProxyType.__eq__", proxied_compare<Py_EQ>, 2, 2},
    {"types.MappingProxyType.__ne__", proxied_compare<Py_NE>, 2, 2},
};

}  // namespace

std::span<const ModelRow> dict_models() { return kRows; }

}  // namespace stator::capture
