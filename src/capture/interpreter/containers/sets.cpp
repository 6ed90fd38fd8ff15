// Sets. If all elements are literals or guarded by identity, a real set holds them, so that its order of iteration is
// CPython's. Otherwise a table of values does; reading its order is a break.
#include "capture/interpreter/containers/sets.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/binary_ops.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {
namespace {

using enum pycompat::BinaryOp;

/// The element as a real object, if it is a literal or guarded by identity; null otherwise.
Ref fixed_element(Interpreter& in, Value* item) {
  if (item->kind == Kind::List || item->kind == Kind::Dict) key_hash(in, item);  // raises
  if (item->kind == Kind::Set && static_cast<SetValue*>(item)->type == &PySet_Type) key_hash(in, item);
  Ref literal = in.literal_of(item);
  // A plan would make another object of the same value, which is another element.
  if (literal && is_literal(literal.get())) refuse_unequal_to_itself(literal.get());
  return literal && (is_literal(literal.get()) || is_guarded_by_identity(literal.get())) ? literal : Ref();
}

void use_table(Interpreter& in, SetValue* set) {
  if (set->table) return;
  set->table = in.dict();
  pycompat::SetCursor cursor(set->elements.get());
  while (PyObject* element = cursor.next()) in.dict_set(set->table, in.constant(element), in.none());
  set->elements = Ref();
}

void log_change(Interpreter& in, SetValue* set, const char* method, std::vector<Value*> arguments) {
  in.effects.refuse_frozen(set);
  set->changed = true;
  ++set->version;
  in.effects.note_change();
  if (set->source) in.replay_method(set, method, std::move(arguments));
}

/// A real object with the same elements, if iterating it runs no code of the program; null otherwise.
Ref real_iterable(Interpreter& in, Value* iterable) {
  if (SetValue* set = set_part(in, iterable)) {
    if (set->table) return {};
    set_items(in, set);
    return set->elements;
  }
  if (iterable->kind == Kind::Dict || iterable->kind == Kind::Constant) return in.literal_of(iterable);
  return {};
}

}  // namespace

/// Equal sets can differ in order, so the guard compares the elements in order.
SetValue* external_set(Interpreter& in, PyObject* object, Source* source) {
  auto in_order = [](PyObject* set) {
    // The `__iter__` of a subclass is not used.
    Ref items = Ref::steal(PyList_New(0));
    pycompat::SetCursor cursor(set);
    while (PyObject* element = cursor.next()) PyList_Append(items.get(), element);
    return Ref::steal(PyList_AsTuple(items.get()));
  };
  in.guards.add_type(source, Py_TYPE(object));
  Ref order = in_order(object);
  in.guards.add(source, FactKind::Elements, order.get(), set_layout(object));
  PyTypeObject* type = PyFrozenSet_Check(object) ? &PyFrozenSet_Type : &PySet_Type;
  auto* set = in.arena.make<SetValue>(Ref::steal(PySet_New(object)), type);
  set->source = source;
  set->exact = set_layout(set->elements.get()) == set_layout(object);
  Ref copied = in_order(set->elements.get());
  bool same_order = PyTuple_GET_SIZE(copied.get()) == PyTuple_GET_SIZE(order.get()), fixed = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order.get()); ++i) {
    PyObject* element = PyTuple_GET_ITEM(order.get(), i);
    same_order = same_order && element == PyTuple_GET_ITEM(copied.get(), i);
    fixed = fixed && (is_literal(element) || is_guarded_by_identity(element));
  }
  if (fixed && same_order) return set;
  set->elements = Ref();
  set->table = in.dict();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order.get()); ++i)
    in.dict_set(set->table, external_element(in, PyTuple_GET_ITEM(order.get(), i)), in.none());
  return set;
}

SetValue* set_part(Interpreter& in, Value* value) {
  if (auto* set = as<SetValue>(value)) return set;
  auto* object = as<ObjectValue>(value);
  if (!object) return nullptr;
  if (!object->base && object->object && PyAnySet_Check(object->object.get()))
    object->base = external_set(in, object->object.get(), object->source);
  return as<SetValue>(object->base);
}

SetValue* set_operand(Interpreter& in, Value* value) {
  if (auto* set = as<SetValue>(value)) return set;
  if (auto* view = as<ViewValue>(value); view && view->part != ViewValue::Part::Values)
    return set_from(in, in.list(in.unpack(view)), &PySet_Type);
  if (value->kind != Kind::Constant || in.type_of(value) != &PyFrozenSet_Type) return nullptr;
  return set_from(in, value, &PyFrozenSet_Type);
}

SetValue* make_set(Interpreter& in, const std::vector<Value*>& items, PyTypeObject* type) {
  auto* set = in.arena.make<SetValue>(Ref::steal(PySet_New(nullptr)), type);
  for (Value* item : items) set_insert(in, set, item);
  return set;
}

SetValue* set_from(Interpreter& in, Value* iterable, PyTypeObject* type) {
  if (Ref object = real_iterable(in, iterable)) {
    Ref made = Ref::steal(PySet_New(object.get()));
    if (!made) raise_current(in);
    return in.arena.make<SetValue>(std::move(made), type);
  }
  if (SetValue* set = set_part(in, iterable)) return set_copy(in, set, type);
  return make_set(in, in.unpack(iterable), type);
}

void set_merge(Interpreter& in, SetValue* set, Value* iterable) {
  Ref object = set->table ? Ref() : real_iterable(in, iterable);
  if (object) {
    if (pycompat::set_update(set->elements.get(), object.get()) < 0) raise_current(in);
    SetValue* other = set_part(in, iterable);
    log_change(in, set, "update", {other ? set_copy(in, other, &PySet_Type) : iterable});
    return;
  }
  if (SetValue* other = set_part(in, iterable); other && other->table) {
    for (auto& entry : std::vector<DictValue::Entry>(other->table->entries))
      if (entry.key) set_insert(in, set, entry.key);
    return;
  }
  // One after the other: elements before an error stay.
  Value* iterator = in.iterate(iterable);
  while (Value* item = in.next(iterator)) set_insert(in, set, item);
}

size_t set_size(const SetValue* set) { return set->table ? set->table->live : PySet_GET_SIZE(set->elements.get()); }

std::vector<Value*> set_items(Interpreter& in, SetValue* set) {
  std::vector<Value*> items;
  if (set->table) {
    if (set->table->live > 1) throw Break{BreakId::unknown_object, "the order of a set of objects"};
    for (auto& entry : set->table->entries)
      if (entry.key) items.push_back(entry.key);
    return items;
  }
  if (set->source && set->changed && !set->exact && set_size(set) > 1)
    throw Break{BreakId::unknown_object, "the order of an external set that was changed"};
  pycompat::SetCursor cursor(set->elements.get());
  while (PyObject* element = cursor.next()) items.push_back(in.constant(element));
  return items;
}

/// The element to look for: sets are unhashable, and CPython looks for the equal frozenset instead.
static Value* lookup_element(Interpreter& in, Value* item) {
  if (item->kind != Kind::Set && !PyType_IsSubtype(in.type_of(item), &PySet_Type)) return item;
  SetValue* set = set_part(in, item);
  if (!set || set->type != &PySet_Type) return item;
  // A subclass may define a hash.
  if (item->kind == Kind::Object && in.type_of(item)->tp_hash != PySet_Type.tp_hash) return item;
  return set_copy(in, set, &PyFrozenSet_Type);
}

bool set_has(Interpreter& in, SetValue* set, Value* item) {
  item = lookup_element(in, item);
  if (!set->table) {
    Ref element = fixed_element(in, item);
    // A value that compares by identity is in no set of literals.
    if (!element && is_identity_key(in, item)) return false;
    if (element) {
      int found = PySet_Contains(set->elements.get(), element.get());
      if (found < 0) raise_current(in);
      return found;
    }
    use_table(in, set);
  }
  return in.dict_get(set->table, item) != nullptr;
}

void set_insert(Interpreter& in, SetValue* set, Value* item) {
  Ref element = set->table ? Ref() : fixed_element(in, item);
  if (element) {
    if (PySet_Add(set->elements.get(), element.get()) < 0) raise_current(in);
  } else {
    use_table(in, set);
    if (dict_put_new(in, set->table, item, in.none())) return;
  }
  log_change(in, set, "add", {item});
}

bool set_remove(Interpreter& in, SetValue* set, Value* item) {
  item = lookup_element(in, item);
  if (set->table) {
    if (!dict_take(in, set->table, item)) return false;
  } else {
    if (!set_has(in, set, item)) return false;
    if (set->table)
      in.dict_delete(set->table, item);
    else if (Ref element = fixed_element(in, item))
      PySet_Discard(set->elements.get(), element.get());
  }
  log_change(in, set, "discard", {item});
  return true;
}

void set_empty(Interpreter& in, SetValue* set) {
  set->elements = Ref::steal(PySet_New(nullptr));
  set->table = nullptr;
  log_change(in, set, "clear", {});
}

SetValue* set_copy(Interpreter& in, SetValue* set, PyTypeObject* type) {
  if (!set->table) {
    set_items(in, set);
    return in.arena.make<SetValue>(Ref::steal(PySet_New(set->elements.get())), type);
  }
  auto* copy = in.arena.make<SetValue>(Ref(), type);
  refuse_rehash(in, set->table);
  copy->table = in.dict();
  for (auto& entry : set->table->entries)
    if (entry.key) in.dict_set(copy->table, entry.key, in.none());
  return copy;
}

SetValue* as_set(Interpreter& in, Value* value) {
  if (SetValue* set = set_part(in, value)) return set;
  return set_from(in, value, &PySet_Type);
}

SetValue* set_combine(Interpreter& in, int op, SetValue* a, SetValue* b) {
  if (!a->table && !b->table) {
    for (SetValue* set : {a, b}) set_items(in, set);
    auto apply = op == kAnd        ? PyNumber_And
                 : op == kOr       ? PyNumber_Or
                 : op == kSubtract ? PyNumber_Subtract
                                   : PyNumber_Xor;
    Ref result = Ref::steal(apply(a->elements.get(), b->elements.get()));
    if (!result) raise_current(in);
    return in.arena.make<SetValue>(std::move(result), a->type);
  }
  use_table(in, a);
  use_table(in, b);
  for (SetValue* set : {a, b}) refuse_rehash(in, set->table);
  auto* made = in.arena.make<SetValue>(Ref(), a->type);
  made->table = in.dict();
  auto take = [&](SetValue* from, SetValue* other, bool if_in_other) {
    // An `__eq__` of the program may change the set.
    for (auto& entry : std::vector<DictValue::Entry>(from->table->entries))
      if (entry.key && (in.dict_get(other->table, entry.key) != nullptr) == if_in_other)
        in.dict_set(made->table, entry.key, in.none());
  };
  if (op == kAnd || op == kOr) take(a, b, true);
  if (op != kAnd) take(a, b, false);
  if (op == kOr || op == kXor) take(b, a, false);
  return made;
}

void set_change(Interpreter& in, int op, SetValue* set, SetValue* by) {
  if (op == kOr) return set_merge(in, set, by);
  if (op != kAnd) {
    // `s -= s` and `s ^= s` would change the set that is iterated.
    SetValue* fixed = set_copy(in, by, by->type);
    use_table(in, fixed);
    for (auto& entry : std::vector<DictValue::Entry>(fixed->table->entries))
      if (entry.key && !set_remove(in, set, entry.key) && op == kXor) set_insert(in, set, entry.key);
    return;
  }
  SetValue* common = set_combine(in, op, set, by);
  set->elements = common->elements;
  set->table = common->table;
  log_change(in, set, "__iand__", {set_copy(in, by, &PySet_Type)});
}

bool set_compare(Interpreter& in, int op, SetValue* a, SetValue* b) {
  auto within = [&](SetValue* small, SetValue* large) {
    if (!small->table && !large->table) {
      Ref answer = Ref::steal(PyObject_RichCompare(small->elements.get(), large->elements.get(), Py_LE));
      return answer.get() == Py_True;
    }
    use_table(in, small);
    refuse_rehash(in, small->table);
    for (auto& entry : std::vector<DictValue::Entry>(small->table->entries))
      if (entry.key && !set_has(in, large, entry.key)) return false;
    return true;
  };
  size_t x = set_size(a), y = set_size(b);
  switch (op) {
    case Py_EQ:
      return x == y && within(a, b);
    case Py_NE:
      return !(x == y && within(a, b));
    case Py_LE:
      return within(a, b);
    case Py_LT:
      return x < y && within(a, b);
    case Py_GE:
      return within(b, a);
    default:
      return x > y && within(b, a);
  }
}

}  // namespace stator::capture
