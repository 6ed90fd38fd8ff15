// How a plan makes iterators of the program again: by a call, and by taking the items that the program has taken.
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {

static PyObject* iter_function() {
  static PyObject* const iter = known_object("builtins.iter");
  return iter;
}

Rebuild SequenceIterator::rebuild(Interpreter& in) {
  if (done) {
    Value* none_left = sequence->kind == Kind::List ? in.list({}) : in.tuple({});
    return {iter_function(), {none_left}, {}, 1};
  }
  // `iter` would call the `__iter__` of a subclass, which may have made this iterator itself.
  static PyObject* const of_list = known_object("builtins.list.__iter__");
  static PyObject* const of_tuple = known_object("builtins.tuple.__iter__");
  return {sequence->kind == Kind::List ? of_list : of_tuple, {sequence}, {}, index};
}
Rebuild LiteralIterator::rebuild(Interpreter&) { return {iter_function(), {over}, {}, taken}; }
Rebuild ListedIterator::rebuild(Interpreter&) {
  Rebuild made = again;
  made.taken = index;
  return made;
}
Rebuild DictIterator::rebuild(Interpreter& in) {
  if (done && reverse) return {iter_function(), {in.tuple({})}, {}, 1};
  auto over = [&](DictValue* of) {
    return part == ViewValue::Part::Keys ? static_cast<Value*>(of) : in.arena.make<ViewValue>(of, part);
  };
  if (done) return {iter_function(), {over(in.dict())}, {}, 1};
  if (reverse || dict->live != live || dict->entries.size() != entries) return {};
  size_t taken = 0;
  for (size_t i = 0; i < index; ++i) taken += dict->entries[i].key != nullptr;
  return {iter_function(), {over(dict)}, {}, taken};
}
Rebuild SetIterator::rebuild(Interpreter&) {
  // A set that the plan makes may have another order.
  if (set->version != version || (!set->source && index > 0)) return {};
  return {iter_function(), {set}, {}, index};
}
Rebuild ZipIterator::rebuild(Interpreter& in) {
  Rebuild made{reinterpret_cast<PyObject*>(&PyZip_Type), parts};
  if (strict) made.keywords = {{"strict", in.boolean(true)}};
  return made;
}
Rebuild EnumerateIterator::rebuild(Interpreter&) { return {reinterpret_cast<PyObject*>(&PyEnum_Type), {inner, count}}; }
Rebuild MapIterator::rebuild(Interpreter&) {
  Rebuild made{reinterpret_cast<PyObject*>(&PyMap_Type), {function}};
  made.args.insert(made.args.end(), parts.begin(), parts.end());
  return made;
}
Rebuild FilterIterator::rebuild(Interpreter&) {
  return {reinterpret_cast<PyObject*>(&PyFilter_Type), {function, inner}};
}
Rebuild ItemIterator::rebuild(Interpreter&) {
  // Iterating an instance runs code of the program.
  SequenceValue* sequence = as_sequence(container);
  if (!sequence || step > 0 || done || index >= static_cast<Py_ssize_t>(sequence->items.size())) return {};
  size_t taken = sequence->items.size() - 1 - static_cast<size_t>(index);
  return {reinterpret_cast<PyObject*>(&PyReversed_Type), {container}, {}, taken};
}

}  // namespace stator::capture
