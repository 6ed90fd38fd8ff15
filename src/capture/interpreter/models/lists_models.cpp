// Methods of list and tuple, on values of those kinds and on instances of their subclasses.
#include <algorithm>

#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/containers/merging.h"
#include "capture/interpreter/containers/sorting.h"
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/iteration.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

/// The list or tuple of a value or of its built-in part, or null. A constant tuple is expanded into items.
SequenceValue* sequence_of(Interpreter& in, Value* value) {
  if (SequenceValue* list = in.list_part(value)) return list;
  bool is_tuple = value->kind == Kind::Constant && PyType_IsSubtype(in.type_of(value), &PyTuple_Type);
  return is_tuple ? in.tuple(in.unpack(value)) : nullptr;
}

SequenceValue* self_of(Interpreter& in, CallArgs& args) {
  SequenceValue* list = sequence_of(in, args.positional[0]);
  if (!list) throw Break{BreakId::unknown_call, "a list method on an object that is not a list"};
  for (size_t i = 0; list->external && i < list->items.size(); ++i) in.item(list, i);
  return list;
}

/// A slice bound, clamped as in CPython. The size is read after `__index__` was called, which may change the list.
Py_ssize_t clamped(Interpreter& in, Value* value, const SequenceValue* list) {
  Py_ssize_t at = index_of(in, value), size = static_cast<Py_ssize_t>(list->items.size());
  if (at < 0) at += size;
  return std::clamp<Py_ssize_t>(at, 0, size);
}

Value* changed(Interpreter& in, SequenceValue* list) {
  in.mutated(list);
  return in.none();
}

Value* append(Interpreter& in, CallArgs& args) {
  if (append_unseen(in, args.positional[0], args.positional[1])) return in.none();
  SequenceValue* list = self_of(in, args);
  list->items.push_back(args.positional[1]);
  return changed(in, list);
}
Value* extend(Interpreter& in, CallArgs& args) {
  extend_list(in, self_of(in, args), args.positional[1]);
  return in.none();
}
Value* insert(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  Py_ssize_t where = clamped(in, args.positional[1], list);
  list->items.insert(list->items.begin() + where, args.positional[2]);
  return changed(in, list);
}
Value* pop(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  Py_ssize_t where = args.positional.size() > 1 ? index_of(in, args.positional[1]) : -1;
  Py_ssize_t size = static_cast<Py_ssize_t>(list->items.size());
  if (size == 0) in.raise(PyExc_IndexError, "pop from empty list");
  if (where < 0) where += size;
  if (where < 0 || where >= size) in.raise(PyExc_IndexError, "pop index out of range");
  Value* item = list->items[where];
  list->items.erase(list->items.begin() + where);
  in.mutated(list);
  return item;
}

bool same_item(Interpreter& in, Value* item, Value* wanted) { return same_or_equal(in, item, wanted); }

Value* remove(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  for (size_t i = 0; i < list->items.size(); ++i)
    if (same_item(in, list->items[i], args.positional[1])) {
      if (i >= list->items.size()) throw Break{BreakId::mutation, "a list that changes while it is searched"};
      list->items.erase(list->items.begin() + static_cast<ptrdiff_t>(i));
      return changed(in, list);
    }
  in.raise(PyExc_ValueError, "list.remove(x): x not in list");
}
Value* index(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  Py_ssize_t first = args.positional.size() > 2 ? clamped(in, args.positional[2], list) : 0;
  Py_ssize_t last = args.positional.size() > 3 ? clamped(in, args.positional[3], list) : PY_SSIZE_T_MAX;
  // Read the size in each iteration: the program's `__eq__` may change the list.
  for (Py_ssize_t i = first; i < std::min<Py_ssize_t>(last, list->items.size()); ++i)
    if (same_item(in, list->items[i], args.positional[1])) return in.integer(i);
  if (list->kind == Kind::Tuple) in.raise(PyExc_ValueError, "tuple.index(x): x not in tuple");
  // The real method raises, because the message contains the value.
  return call_literal(in, known_object("builtins.list.index"), arguments({in.list({}), args.positional[1]}));
}
Value* count(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  int64_t found = 0;
  for (size_t i = 0; i < list->items.size(); ++i) found += same_item(in, list->items[i], args.positional[1]);
  return in.integer(found);
}
Value* reverse(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  std::reverse(list->items.begin(), list->items.end());
  return changed(in, list);
}
Value* sort(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  // As in CPython, the list is empty while it is sorted.
  SequenceValue* apart = in.list(std::exchange(list->items, {}));
  try {
    sort_list(in, apart, args.keyword("key"), args.keyword("reverse"));
  } catch (const Raise&) {
    list->items = apart->items;
    in.mutated(list);
    throw;
  }
  const bool was_touched = !list->items.empty();
  list->items = apart->items;
  in.mutated(list);
  if (was_touched) in.raise(PyExc_ValueError, "list modified during sort");
  return in.none();
}
Value* clear(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  list->items.clear();
  return changed(in, list);
}
Value* copy(Interpreter& in, CallArgs& args) { return in.list(self_of(in, args)->items); }
Value* get_item(Interpreter& in, CallArgs& args) { return in.get_item(self_of(in, args), args.positional[1]); }
Value* set_item(Interpreter& in, CallArgs& args) {
  in.set_item(self_of(in, args), args.positional[1], args.positional[2]);
  return in.none();
}
Value* del_item(Interpreter& in, CallArgs& args) {
  in.del_item(self_of(in, args), args.positional[1]);
  return in.none();
}
Value* length(Interpreter& in, CallArgs& args) { return in.integer(self_of(in, args)->items.size()); }
Value* iterate(Interpreter& in, CallArgs& args) { return in.iterate(self_of(in, args)); }
Value* contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.contains(self_of(in, args), args.positional[1]));
}
Value* init(Interpreter& in, CallArgs& args) {
  SequenceValue* list = self_of(in, args);
  list->items.clear();
  if (args.positional.size() > 1) extend_list(in, list, args.positional[1]);
  return changed(in, list);
}
Value* reversed(Interpreter& in, CallArgs& args) { return reversed_items(in, self_of(in, args)); }
/// The other operand as a list or tuple of the same kind as `self`; null if it is of another kind.
SequenceValue* of_same_kind(Interpreter& in, const SequenceValue* self, Value* other) {
  if (!PyType_IsSubtype(in.type_of(other), self->kind == Kind::List ? &PyList_Type : &PyTuple_Type)) return nullptr;
  return sequence_of(in, other);
}
template <int op>
Value* binary(Interpreter& in, CallArgs& args) {
  SequenceValue *a = self_of(in, args), *b = of_same_kind(in, a, args.positional[1]);
  // The operator would try the instance's reflected method as well.
  if (!b && args.positional[1]->kind == Kind::Object)
    throw Break{BreakId::raises, "a sequence's operator by name, with an instance"};
  return in.binary(op, a, b ? b : args.positional[1]);
}
template <int op>
Value* compare(Interpreter& in, CallArgs& args) {
  SequenceValue *a = self_of(in, args), *b = of_same_kind(in, a, args.positional[1]);
  return b ? in.compare(op, a, b) : in.constant(Py_NotImplemented);
}
Value* add_in_place(Interpreter& in, CallArgs& args) {
  extend_list(in, self_of(in, args), args.positional[1]);
  return args.positional[0];
}
Value* repeat_in_place(Interpreter& in, CallArgs& args) {
  in.binary(pycompat::kInPlace + pycompat::kMultiply, self_of(in, args), args.positional[1]);
  return args.positional[0];
}
Value* tuple_new(Interpreter& in, CallArgs& args) {
  PyObject* cls = in.constant_of(args.positional[0]);
  if (!cls || !PyType_Check(cls)) throw Break{BreakId::unknown_call, "tuple.__new__"};
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  SequenceValue* made =
      in.tuple(args.positional.size() > 1 ? unpack_hinted(in, args.positional[1]) : std::vector<Value*>{});
  if (type == &PyTuple_Type) return made;
  if (is_named_tuple(type)) {
    made->type = type;
    return made;
  }
  Value* object = new_instance(in, type);
  if (object->kind != Kind::Object) throw Break{BreakId::unknown_call, "an instance of a tuple subclass"};
  static_cast<ObjectValue*>(object)->base = made;
  return object;
}

constexpr ModelRow kRows[] = {
    {"builtins.list.append", append, 2, 2},
    {"builtins.list.extend", extend, 2, 2},
    {"builtins.list.insert", insert, 3, 3},
    {"builtins.list.pop", pop, 1, 2},
    {"builtins.list.remove", remove, 2, 2},
    {"builtins.list.index", index, 2, 4},
    {"builtins.list.count", count, 2, 2},
    {"builtins.list.reverse", reverse, 1, 1},
    {"builtins.list.sort", sort, 1, 1, "key reverse"},
    {"builtins.list.clear", clear, 1, 1},
    {"builtins.list.copy", copy, 1, 1},
    {"builtins.list.__getitem__", get_item, 2, 2},
    {"builtins.list.__setitem__", set_item, 3, 3},
    {"builtins.list.__delitem__", del_item, 2, 2},
    {"builtins.list.__len__", length, 1, 1},
    {"builtins.list.__iter__", iterate, 1, 1},
    {"builtins.list.__contains__", contains, 2, 2},
    {"builtins.list.__init__", init, 1, 2},
    {"builtins.list.__add__", binary<pycompat::kAdd>, 2, 2},
    {"builtins.list.__iadd__", add_in_place, 2, 2},
    {"builtins.list.__imul__", repeat_in_place, 2, 2},
    {"builtins.list.__mul__", binary<pycompat::kMultiply>, 2, 2},
    {"builtins.list.__rmul__", binary<pycompat::kMultiply>, 2, 2},
    {"builtins.list.__reversed__", reversed, 1, 1},
    {"builtins.list.__eq__", compare<Py_EQ>, 2, 2},
    {"builtins.list.__ne__", compare<Py_NE>, 2, 2},
    {"builtins.list.__lt__", compare<Py_LT>, 2, 2},
    {"builtins.list.__le__", compare<Py_LE>, 2, 2},
    {"builtins.list.__gt__", compare<Py_GT>, 2, 2},
    {"builtins.list.__ge__", compare<Py_GE>, 2, 2},
    {"builtins.tuple.index", index, 2, 4},
    {"builtins.tuple.count", count, 2, 2},
    {"builtins.tuple.__getitem__", get_item, 2, 2},
    {"builtins.tuple.__len__", length, 1, 1},
    {"builtins.tuple.__iter__", iterate, 1, 1},
    {"builtins.tuple.__contains__", contains, 2, 2},
    {"builtins.tuple.__new__", tuple_new, 1, 2},
    {"builtins.tuple.__add__", binary<pycompat::kAdd>, 2, 2},
    {"builtins.tuple.__mul__", binary<pycompat::kMultiply>, 2, 2},
    {"builtins.tuple.__rmul__", binary<pycompat::kMultiply>, 2, 2},
    {"builtins.tuple.__eq__", compare<Py_EQ>, 2, 2},
    {"builtins.tuple.__ne__", compare<Py_NE>, 2, 2},
    {"builtins.tuple.__lt__", compare<Py_LT>, 2, 2},
    {"builtins.tuple.__le__", compare<Py_LE>, 2, 2},
    {"builtins.tuple.__gt__", compare<Py_GT>, 2, 2},
    {"builtins.tuple.__ge__", compare<Py_GE>, 2, 2},
};

}  // namespace

std::span<const ModelRow> list_models() { return kRows; }

}  // namespace stator::capture
