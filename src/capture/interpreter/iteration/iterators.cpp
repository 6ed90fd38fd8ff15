// Iterators half-way through: over sequences, dicts, ranges, tensors, and the iterator classes of builtins.
#include "capture/interpreter/iteration/iterators.h"

#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/operators/equality.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/tensor_items.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {

Value* SequenceIterator::next(Interpreter& in) {
  if (done || index >= sequence->items.size()) {
    done = true;
    return nullptr;
  }
  return in.item(sequence, index++);
}
PyTypeObject* SequenceIterator::type() const {
  return sequence->kind == Kind::List ? &PyListIter_Type : &PyTupleIter_Type;
}

Value* ListedIterator::next(Interpreter&) { return index < items.size() ? items[index++] : nullptr; }

Value* LiteralIterator::next(Interpreter& in) {
  if (!real) return nullptr;
  Ref item = Ref::steal(PyIter_Next(real.get()));
  ++taken;
  if (item) return in.constant(std::move(item));
  real = Ref();
  return nullptr;
}

Value* ZipIterator::next(Interpreter& in) {
  auto uneven = [&](size_t argument, const char* how) {
    std::string others = argument == 1 ? "argument 1" : "arguments 1-" + std::to_string(argument);
    in.raise(PyExc_ValueError, "zip() argument " + std::to_string(argument + 1) + " is " + how + " than " + others);
  };
  std::vector<Value*> row;
  for (size_t i = 0; i < parts.size(); ++i) {
    Value* item = in.next(parts[i]);
    if (item) {
      row.push_back(item);
      continue;
    }
    if (strict && i > 0) uneven(i, "shorter");
    for (size_t k = 1; strict && k < parts.size(); ++k)
      if (in.next(parts[k])) uneven(k, "longer");
    return nullptr;
  }
  return parts.empty() ? nullptr : in.tuple(std::move(row));
}

Value* EnumerateIterator::next(Interpreter& in) {
  Value* item = in.next(inner);
  if (!item) return nullptr;
  Value* number = count;
  count = in.binary(pycompat::kAdd, count, in.integer(1));
  return in.tuple({number, item});
}

Value* MapIterator::next(Interpreter& in) {
  CallArgs args;
  for (Value* part : parts) {
    Value* item = in.next(part);
    if (!item) return nullptr;
    args.positional.push_back(item);
  }
  return in.call(function, std::move(args));
}

Value* FilterIterator::next(Interpreter& in) {
  while (Value* item = in.next(inner)) {
    if (in.is_same(function, in.none())) {
      if (in.truth(item)) return item;
      continue;
    }
    if (in.truth(in.call(function, arguments({item})))) return item;
  }
  return nullptr;
}

Value* DictIterator::next(Interpreter& in) {
  if (done) return nullptr;
  if (dict->live != live || dict->entries.size() != entries) {
    if (dict->live == live || dict->type == &PyODict_Type)
      throw Break{BreakId::raises, "a dict whose keys change while it is iterated"};
    in.raise(PyExc_RuntimeError, "dictionary changed size during iteration");
  }
  while (index < dict->entries.size()) {
    size_t at = reverse ? dict->entries.size() - 1 - index : index;
    ++index;
    if (!dict->entries[at].key) continue;
    Value* key = dict->entries[at].key;
    if (part == ViewValue::Part::Keys) return key;
    Value* value = in.entry_value(dict, at);
    return part == ViewValue::Part::Values ? value : in.tuple({key, value});
  }
  done = true;
  return nullptr;
}

Value* SetIterator::next(Interpreter& in) {
  if (done) return nullptr;
  if (set->version != version) {
    if (set_size(set) == items.size()) throw Break{BreakId::raises, "a set that changes while it is iterated"};
    in.raise(PyExc_RuntimeError, "Set changed size during iteration");
  }
  done = index >= items.size();
  return done ? nullptr : items[index++];
}

Value* CallIterator::next(Interpreter& in) {
  if (!function) return nullptr;
  try {
    Value* item = in.call(function, {});
    if (!same_or_equal(in, sentinel, item)) return item;
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_StopIteration)) throw;
  }
  function = nullptr;
  return nullptr;
}

Value* ItemIterator::next(Interpreter& in) {
  if (done || index < 0) return nullptr;
  Frame* frame = in.frame;
  int depth = in.depth;
  try {
    Value* item = in.get_item(container, in.integer(index));
    index += step;
    return item;
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_IndexError) &&
        !is_exception(in, raised.exception, PyExc_StopIteration))
      throw;
    in.frame = frame;
    in.depth = depth;
    done = true;
    return nullptr;
  }
}

// ---- made anew at a break

static PyObject* iter_function() {
  static PyObject* const iter = known_object("builtins.iter");
  return iter;
}

Rebuild SequenceIterator::rebuild(Interpreter& in) {
  if (done) {
    Value* none_left = sequence->kind == Kind::List ? in.list({}) : in.tuple({});
    return {iter_function(), {none_left}, {}, 1};
  }
  // Not by way of `iter`: a subclass may have an `__iter__` of its own, which gave this one.
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
  // A set that the program made may come out in another order.
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
  // Going over the items of an instance runs the program's own code.
  SequenceValue* sequence = as_sequence(container);
  if (!sequence || step > 0 || done || index >= static_cast<Py_ssize_t>(sequence->items.size())) return {};
  size_t taken = sequence->items.size() - 1 - static_cast<size_t>(index);
  return {reinterpret_cast<PyObject*>(&PyReversed_Type), {container}, {}, taken};
}
/// Class of the iterator that a real object of this kind gives.
static PyTypeObject* iterator_class(Ref object) {
  Ref iterator = Ref::steal(PyObject_GetIter(object.get()));
  return Py_TYPE(iterator.get());
}

Value* reversed_items(Interpreter& in, Value* value) {
  auto backwards = [&](DictValue* dict, ViewValue::Part part) {
    static PyTypeObject* const types[] = {&PyDictRevIterKey_Type, &PyDictRevIterValue_Type, &PyDictRevIterItem_Type};
    mapping_items(in, dict);
    return in.arena.make<DictIterator>(dict, part, true, types[static_cast<size_t>(part)]);
  };
  if (auto* dict = as<DictValue>(value)) return backwards(dict, ViewValue::Part::Keys);
  if (auto* view = as<ViewValue>(value)) return backwards(view->dict, view->part);
  if (auto* sequence = as_sequence(value)) {
    PyTypeObject* type = value->kind == Kind::List ? &PyListRevIter_Type : &PyReversed_Type;
    return in.arena.make<ItemIterator>(sequence, static_cast<Py_ssize_t>(sequence->items.size()) - 1, -1, type);
  }
  if (value->kind == Kind::Constant && static_cast<ConstantValue*>(value)->literal) {
    Ref real = Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyReversed_Type), in.constant_of(value)));
    if (!real) raise_current(in);
    std::vector<Value*> items;
    while (PyObject* item = PyIter_Next(real.get())) items.push_back(in.constant(Ref::steal(item)));
    Rebuild again{reinterpret_cast<PyObject*>(&PyReversed_Type), {value}};
    return in.arena.make<ListedIterator>(std::move(items), Py_TYPE(real.get()), std::move(again));
  }
  throw Break{BreakId::unknown_call, std::string("reversed() of a ") + in.type_of(value)->tp_name};
}

Value* Interpreter::iterate(Value* value) {
  if (value->kind == Kind::Iterator) return value;
  if (auto* sequence = as_sequence(value)) return arena.make<SequenceIterator>(sequence);
  auto over_dict = [&](DictValue* dict, ViewValue::Part part) {
    static PyTypeObject* const types[] = {&PyDictIterKey_Type, &PyDictIterValue_Type, &PyDictIterItem_Type};
    static PyTypeObject* const ordered = iterator_class(Ref::steal(PyODict_New()));
    realise(dict);
    PyTypeObject* type = dict->type == &PyODict_Type ? ordered : types[static_cast<size_t>(part)];
    return arena.make<DictIterator>(dict, part, false, type);
  };
  if (auto* dict = as<DictValue>(value)) return over_dict(dict, ViewValue::Part::Keys);
  if (auto* view = as<ViewValue>(value)) return over_dict(view->dict, view->part);
  static PyObject* const iter = PyUnicode_InternFromString("__iter__");
  if (auto* tensor = as<TensorValue>(value)) {
    if (!is_asked(*this, tensor, "__iter__")) return tensor_iterator(*this, tensor);
    return iterate(call(type_method(*this, value, iter), {}));
  }
  if (value->kind == Kind::Array) {
    std::vector<Value*> rows;
    for (Py_ssize_t i = 0; i < *length_of(value); ++i) rows.push_back(get_item(value, integer(i)));
    return iterate(list(std::move(rows)));
  }
  if (auto* set = as<SetValue>(value)) {
    static PyTypeObject* const type = iterator_class(Ref::steal(PySet_New(nullptr)));
    return arena.make<SetIterator>(set, set_items(*this, set), type);
  }
  if (value->kind == Kind::Constant) {
    Ref literal = literal_of(value);
    if (!literal) throw Break{BreakId::unknown_object, "iteration over an object known by identity"};
    Ref iterator = Ref::steal(PyObject_GetIter(literal.get()));
    if (!iterator) {
      PyErr_Clear();
      raise(PyExc_TypeError, std::string("'") + type_of(value)->tp_name + "' object is not iterable");
    }
    return arena.make<LiteralIterator>(std::move(iterator), value);
  }
  if (value->kind == Kind::Object) {
    PyTypeObject* type = type_of(value);
    guard_class(type);
    if (!_PyType_Lookup(type, iter)) {
      static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
      if (_PyType_Lookup(type, getitem)) return arena.make<ItemIterator>(value, 0, 1, &PySeqIter_Type);
      raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
    }
    Value* iterator = call(type_method(*this, value, iter), {});
    static PyObject* const next_name = PyUnicode_InternFromString("__next__");
    if (iterator->kind != Kind::Iterator && !_PyType_Lookup(type_of(iterator), next_name))
      raise(PyExc_TypeError, std::string("iter() returned non-iterator of type '") + type_of(iterator)->tp_name + "'");
    return iterator;
  }
  throw Break{BreakId::unknown_object, std::string("iteration over a ") + type_of(value)->tp_name};
}

Value* call_next(Interpreter& in, Value* iterator) {
  static PyObject* const name = PyUnicode_InternFromString("__next__");
  PyTypeObject* type = in.type_of(iterator);
  in.guard_class(type);
  if (!_PyType_Lookup(type, name))
    in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not an iterator");
  return in.call(type_method(in, iterator, name), {});
}

Value* Interpreter::next(Value* iterator) {
  refuse_frozen(iterator);
  // A function that an iterator calls, as map does, may end it too.
  try {
    if (iterator->kind == Kind::Iterator) return static_cast<IteratorValue*>(iterator)->next(*this);
    return call_next(*this, iterator);
  } catch (const Raise& raised) {
    if (!is_exception(*this, raised.exception, PyExc_StopIteration)) throw;
    return nullptr;
  }
}

Value* hinted_iterator(Interpreter& in, Value* iterable) {
  auto* tensor = as<TensorValue>(iterable);
  bool is_seen = tensor && is_asked(in, tensor, "__len__");
  static PyObject* const names[] = {PyUnicode_InternFromString("__len__"),
                                    PyUnicode_InternFromString("__length_hint__")};
  PyObject* length = iterable->kind == Kind::Object ? _PyType_Lookup(in.type_of(iterable), names[0]) : nullptr;
  const bool tells_length = length && PyFunction_Check(length);
  bool is_instance =
      iterable->kind == Kind::Object && (tells_length || (!in.list_part(iterable) && !in.dict_part(iterable)));
  if (!is_seen && !is_instance) return nullptr;
  Value* iterator = in.iterate(iterable);
  for (PyObject* name : names) {
    PyObject* found = _PyType_Lookup(in.type_of(iterable), name);
    if (!found || !PyFunction_Check(found)) continue;
    Frame* frame = in.frame;
    const int depth = in.depth;
    try {
      Value* hint = in.call(type_method(in, iterable, name), {});
      PyObject* number = in.constant_of(hint);
      if (!number || (number != Py_NotImplemented && !PyLong_Check(number)))
        throw Break{BreakId::raises, "a length that is no int"};
      if (PyLong_Check(number) && PyLong_AsLong(number) < 0) throw Break{BreakId::raises, "a length below 0"};
      if (number != Py_NotImplemented) break;
    } catch (const Raise& raised) {
      if (!is_exception(in, raised.exception, PyExc_TypeError)) throw;
      in.frame = frame;
      in.depth = depth;
    }
  }
  return iterator;
}

void refuse_endless(size_t items) {
  constexpr size_t kMostItems = 1000000;
  if (items > kMostItems) throw Break{BreakId::internal, "an iterator without an end"};
}

/// All that is left of an iterator, which is not asked for another one.
static std::vector<Value*> drained(Interpreter& in, Value* iterator) {
  std::vector<Value*> items;
  while (Value* item = in.next(iterator)) {
    items.push_back(item);
    refuse_endless(items.size());
  }
  return items;
}

std::vector<Value*> unpack_hinted(Interpreter& in, Value* iterable) {
  Value* iterator = hinted_iterator(in, iterable);
  return iterator ? drained(in, iterator) : in.unpack(iterable);
}

std::vector<Value*> Interpreter::unpack(Value* iterable) {
  auto* sequence = as_sequence(iterable);
  if (!sequence) return drained(*this, iterate(iterable));
  std::vector<Value*> items;
  for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(item(sequence, i));
  return items;
}

}  // namespace stator::capture
