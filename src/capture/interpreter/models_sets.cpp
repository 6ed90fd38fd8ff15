// Methods of set and frozenset.
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/keys.h"
#include "capture/interpreter/model.h"

namespace stator::capture {
namespace {

constexpr int kAnd = 1, kOr = 7, kSubtract = 10, kXor = 12;

SetValue* self_of(Interpreter& in, CallArgs& args) {
  Value* self = args.positional[0];
  auto* set = as<SetValue>(self);
  if (!set && self->kind == Kind::Constant && in.type_of(self) == &PyFrozenSet_Type)
    set = set_from(in, self, &PyFrozenSet_Type);
  if (!set) throw Break{BreakId::unknown_call, "a set method on something else"};
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
  return set->type == &PyFrozenSet_Type ? set : set_copy(in, set, set->type);
}
Value* update(Interpreter& in, CallArgs& args) {
  for (size_t i = 1; i < args.positional.size(); ++i) set_merge(in, self_of(in, args), args.positional[i]);
  return in.none();
}
template <int op>
Value* combine(Interpreter& in, CallArgs& args) {
  SetValue* result = self_of(in, args);
  if (args.positional.size() == 1) return copy(in, args);
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
Value* is_disjoint(Interpreter& in, CallArgs& args) {
  return in.boolean(set_size(set_combine(in, kAnd, self_of(in, args), as_set(in, args.positional[1]))) == 0);
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
#define STATOR_SET_ROWS(type)                                                                                        \
  {"builtins." type ".copy", copy, 1, 1}, {"builtins." type ".union", combine<kOr>, 1},                              \
      {"builtins." type ".intersection", combine<kAnd>, 1}, {"builtins." type ".difference", combine<kSubtract>, 1}, \
      {"builtins." type ".symmetric_difference", combine<kXor>, 2, 2},                                               \
      {"builtins." type ".issubset", compare<Py_LE>, 2, 2}, {"builtins." type ".issuperset", compare<Py_GE>, 2, 2},  \
      {"builtins." type ".isdisjoint", is_disjoint, 2, 2}, {"builtins." type ".__contains__", contains, 2, 2},       \
      {"builtins." type ".__len__", length, 1, 1}, {                                                                 \
    "builtins." type ".__iter__", iterate, 1, 1                                                                      \
  }
    STATOR_SET_ROWS("set"),
    STATOR_SET_ROWS("frozenset"),
#undef STATOR_SET_ROWS
};

}  // namespace

std::span<const ModelRow> set_models() { return kRows; }

}  // namespace stator::capture
