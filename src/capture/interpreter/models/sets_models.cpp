// Methods of set and frozenset, on values of that kind and on instances of their subclasses.
#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

using enum pycompat::BinaryOp;

SetValue* self_of(Interpreter& in, CallArgs& args) {
  Value* self = args.positional[0];
  SetValue* set = set_part(in, self);
  if (!set && self->kind == Kind::Constant && in.type_of(self) == &PyFrozenSet_Type)
    set = set_from(in, self, &PyFrozenSet_Type);
  if (!set) throw Break{BreakId::unknown_call, "a set method on an object that is not a set"};
  return set;
}

Value* add(Interpreter& in, CallArgs& args) {
  set_insert(in, self_of(in, args), args.positional[1]);
  return in.none();
}
Value* discard(Interpreter& in, CallArgs& args) {
  set_remove(in, self_of(in, args), args.positional[1]);
  return in.none();
}
Value* remove(Interpreter& in, CallArgs& args) {
  if (!set_remove(in, self_of(in, args), args.positional[1])) raise_key_error(in, args.positional[1]);
  return in.none();
}
Value* pop(Interpreter& in, CallArgs& args) {
  SetValue* set = self_of(in, args);
  std::vector<Value*> items = set_items(in, set);
  if (items.empty()) in.raise(PyExc_KeyError, "pop from an empty set");
  set_remove(in, set, items[0]);
  return items[0];
}
Value* clear(Interpreter& in, CallArgs& args) {
  set_empty(in, self_of(in, args));
  return in.none();
}
Value* copy(Interpreter& in, CallArgs& args) {
  SetValue* set = self_of(in, args);
  bool is_same = set->type == &PyFrozenSet_Type && args.positional[0]->kind != Kind::Object;
  return is_same ? args.positional[0] : set_copy(in, set, set->type);
}
Value* update(Interpreter& in, CallArgs& args) {
  for (size_t i = 1; i < args.positional.size(); ++i) set_merge(in, self_of(in, args), args.positional[i]);
  return in.none();
}
template <int op>
Value* combine(Interpreter& in, CallArgs& args) {
  SetValue* result = self_of(in, args);
  if (args.positional.size() == 1) return set_copy(in, result, result->type);
  for (size_t i = 1; i < args.positional.size(); ++i)
    result = set_combine(in, op, result, as_set(in, args.positional[i]));
  return result;
}
template <int op>
Value* change(Interpreter& in, CallArgs& args) {
  for (size_t i = 1; i < args.positional.size(); ++i)
    set_change(in, op, self_of(in, args), as_set(in, args.positional[i]));
  return in.none();
}
template <int op>
Value* compare(Interpreter& in, CallArgs& args) {
  return in.boolean(set_compare(in, op, self_of(in, args), as_set(in, args.positional[1])));
}
/// Whether membership in the set equals `held` for every item. Stops taking items at the first difference.
bool all_are(Interpreter& in, SetValue* set, Value* iterable, bool held) {
  Value* iterator = in.iterate(iterable);
  while (Value* item = in.next(iterator))
    if (set_has(in, set, item) != held) return false;
  return true;
}
Value* is_superset(Interpreter& in, CallArgs& args) {
  SetValue *set = self_of(in, args), *other = set_part(in, args.positional[1]);
  return in.boolean(other ? set_compare(in, Py_GE, set, other) : all_are(in, set, args.positional[1], true));
}
Value* is_disjoint(Interpreter& in, CallArgs& args) {
  SetValue *set = self_of(in, args), *other = set_part(in, args.positional[1]);
  return in.boolean(other ? set_size(set_combine(in, kAnd, set, other)) == 0
                          : all_are(in, set, args.positional[1], false));
}

// ---- operator methods: they return NotImplemented for an operand that is not a set

SetValue* operand(Interpreter& in, Value* value) {
  if (value->kind == Kind::Constant && in.type_of(value) == &PyFrozenSet_Type)
    return set_from(in, value, &PyFrozenSet_Type);
  return set_part(in, value);
}
template <int op, bool reflected = false>
Value* combine_sets(Interpreter& in, CallArgs& args) {
  SetValue *self = self_of(in, args), *other = operand(in, args.positional[1]);
  if (!other) return in.constant(Py_NotImplemented);
  return reflected ? set_combine(in, op, other, self) : set_combine(in, op, self, other);
}
template <int op>
Value* combine_in_place(Interpreter& in, CallArgs& args) {
  SetValue *self = self_of(in, args), *other = operand(in, args.positional[1]);
  if (!other) return in.constant(Py_NotImplemented);
  set_change(in, op, self, other);
  return args.positional[0];
}
template <int op>
Value* compare_sets(Interpreter& in, CallArgs& args) {
  SetValue *self = self_of(in, args), *other = operand(in, args.positional[1]);
  return other ? in.boolean(set_compare(in, op, self, other)) : in.constant(Py_NotImplemented);
}

Value* init(Interpreter& in, CallArgs& args) {
  SetValue* set = self_of(in, args);
  if (set_size(set) > 0) set_empty(in, set);
  if (args.positional.size() > 1) set_merge(in, set, args.positional[1]);
  return in.none();
}
/// frozenset.__new__ gets all elements at once.
Value* new_frozenset(Interpreter& in, CallArgs& args) {
  PyObject* cls = in.constant_of(args.positional[0]);
  if (!cls || !PyType_Check(cls)) throw Break{BreakId::unknown_call, "frozenset.__new__"};
  bool is_plain = cls == reinterpret_cast<PyObject*>(&PyFrozenSet_Type);
  if (is_plain) return in.call(in.constant(cls), arguments({args.positional.begin() + 1, args.positional.end()}));
  Value* made = new_instance(in, reinterpret_cast<PyTypeObject*>(cls));
  if (made->kind != Kind::Object) throw Break{BreakId::unknown_call, "an instance of a frozenset subclass"};
  if (args.positional.size() > 1)
    static_cast<ObjectValue*>(made)->base = set_from(in, args.positional[1], &PyFrozenSet_Type);
  return made;
}
Value* contains(Interpreter& in, CallArgs& args) {
  return in.boolean(set_has(in, self_of(in, args), args.positional[1]));
}
Value* length(Interpreter& in, CallArgs& args) { return in.integer(set_size(self_of(in, args))); }
Value* iterate(Interpreter& in, CallArgs& args) { return in.iterate(self_of(in, args)); }

constexpr ModelRow kRows[] = {
    {"builtins.set.add", add, 2, 2},
    {"builtins.set.discard", discard, 2, 2},
    {"builtins.set.remove", remove, 2, 2},
    {"builtins.set.pop", pop, 1, 1},
    {"builtins.set.clear", clear, 1, 1},
    {"builtins.set.update", update, 1},
    {"builtins.set.difference_update", change<kSubtract>, 1},
    {"builtins.set.intersection_update", change<kAnd>, 1},
    {"builtins.set.symmetric_difference_update", change<kXor>, 2, 2},
    {"builtins.set.__init__", init, 1, 2},
    {"builtins.set.__iand__", combine_in_place<kAnd>, 2, 2},
    {"builtins.set.__ior__", combine_in_place<kOr>, 2, 2},
    {"builtins.set.__isub__", combine_in_place<kSubtract>, 2, 2},
    {"builtins.set.__ixor__", combine_in_place<kXor>, 2, 2},
    {"builtins.frozenset.__new__", new_frozenset, 1, 2},
#define STATOR_SET_ROWS(type)                                                                                        \
  {"builtins." type ".copy", copy, 1, 1}, {"builtins." type ".union", combine<kOr>, 1},                              \
      {"builtins." type ".intersection", combine<kAnd>, 1}, {"builtins." type ".difference", combine<kSubtract>, 1}, \
      {"builtins." type ".symmetric_difference", combine<kXor>, 2, 2},                                               \
      {"builtins." type ".issubset", compare<Py_LE>, 2, 2}, {"builtins." type ".issuperset", is_superset, 2, 2},     \
      {"builtins." type ".isdisjoint", is_disjoint, 2, 2}, {"builtins." type ".__contains__", contains, 2, 2},       \
      {"builtins." type ".__and__", combine_sets<kAnd>, 2, 2},                                                       \
      {"builtins." type ".__rand__", combine_sets<kAnd, true>, 2, 2},                                                \
      {"builtins." type ".__or__", combine_sets<kOr>, 2, 2},                                                         \
      {"builtins." type ".__ror__", combine_sets<kOr, true>, 2, 2},                                                  \
      {"builtins." type ".__sub__", combine_sets<kSubtract>, 2, 2},                                                  \
      {"builtins." type ".__rsub__", combine_sets<kSubtract, true>, 2, 2},                                           \
      {"builtins." type ".__xor__", combine_sets<kXor>, 2, 2},                                                       \
      {"builtins." type ".__rxor__", combine_sets<kXor, true>, 2, 2},                                                \
      {"builtins." type ".__eq__", compare_sets<Py_EQ>, 2, 2},                                                       \
      {"builtins." type ".__ne__", compare_sets<Py_NE>, 2, 2},                                                       \
      {"builtins." type ".__lt__", compare_sets<Py_LT>, 2, 2},                                                       \
      {"builtins." type ".__le__", compare_sets<Py_LE>, 2, 2},                                                       \
      {"builtins." type ".__gt__", compare_sets<Py_GT>, 2, 2},                                                       \
      {"builtins." type ".__ge__", compare_sets<Py_GE>, 2, 2}, {"builtins." type ".__len__", length, 1, 1}, {        \
    "builtins." type ".__iter__", iterate, 1, 1                                                                      \
  }
    STATOR_SET_ROWS("set"),
    STATOR_SET_ROWS("frozenset"),
#undef STATOR_SET_ROWS
};

}  // namespace

std::span<const ModelRow> set_models() { return kRows; }

}  // namespace stator::capture
