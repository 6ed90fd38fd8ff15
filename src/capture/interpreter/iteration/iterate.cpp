// iter(), next(), reversed(), and taking all items of an iterable.
#include "capture/interpreter/protocol/iteration.h"

#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/tensor_items.h"

namespace stator::capture {

/// The class of the object's iterator.
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
  static PyObject* const name = PyUnicode_InternFromString("__reversed__");
  PyTypeObject* type = in.type_of(value);
  in.guards.add_class(type);
  if (PyObject* method = look_up(type, name); method && PyFunction_Check(method))
    return in.call(type_method(in, value, name), {});
  throw Break{BreakId::unknown_call, std::string("reversed() of a ") + in.type_of(value)->tp_name};
}

/// What the class's `__iter__` returns, which must be an iterator.
static Value* iterator_of_class(Interpreter& in, Value* value) {
  static PyObject* const iter = PyUnicode_InternFromString("__iter__");
  static PyObject* const next_name = PyUnicode_InternFromString("__next__");
  Value* iterator = in.call(type_method(in, value, iter), {});
  if (iterator->kind != Kind::Iterator && !look_up(in.type_of(iterator), next_name))
    in.raise(PyExc_TypeError,
             std::string("iter() returned non-iterator of type '") + in.type_of(iterator)->tp_name + "'");
  return iterator;
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
    if (!is_customised(*this, tensor, "__iter__")) return tensor_iterator(*this, tensor);
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
    PyTypeObject* type = Py_TYPE(static_cast<ConstantValue*>(value)->object.get());
    if (PyObject* method = look_up(type, iter); method && PyFunction_Check(method)) {
      guards.add_class(type);  // such as the metaclass of enumerations
      return iterator_of_class(*this, value);
    }
    Ref literal = literal_of(value);
    if (!literal) throw Break{BreakId::unknown_object, "iteration over an object that is guarded by identity"};
    Ref iterator = Ref::steal(PyObject_GetIter(literal.get()));
    if (!iterator) {
      PyErr_Clear();
      raise(PyExc_TypeError, std::string("'") + type_of(value)->tp_name + "' object is not iterable");
    }
    return arena.make<LiteralIterator>(std::move(iterator), value);
  }
  if (value->kind == Kind::Object) {
    PyTypeObject* type = type_of(value);
    guards.add_class(type);
    if (!look_up(type, iter)) {
      static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
      if (look_up(type, getitem)) return arena.make<ItemIterator>(value, 0, 1, &PySeqIter_Type);
      raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
    }
    return iterator_of_class(*this, value);
  }
  throw Break{BreakId::unknown_object, std::string("iteration over a ") + type_of(value)->tp_name};
}

Value* call_next(Interpreter& in, Value* iterator) {
  static PyObject* const name = PyUnicode_InternFromString("__next__");
  PyTypeObject* type = in.type_of(iterator);
  in.guards.add_class(type);
  if (!look_up(type, name)) in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not an iterator");
  return in.call(type_method(in, iterator, name), {});
}

Value* Interpreter::next(Value* iterator) {
  effects.refuse_frozen(iterator);
  // A StopIteration of a function that the iterator calls, as map does, ends it too.
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
  bool is_seen = tensor && is_customised(in, tensor, "__len__");
  static PyObject* const names[] = {PyUnicode_InternFromString("__len__"),
                                    PyUnicode_InternFromString("__length_hint__")};
  PyObject* length = iterable->kind == Kind::Object ? look_up(in.type_of(iterable), names[0]) : nullptr;
  const bool tells_length = length && PyFunction_Check(length);
  bool is_instance =
      iterable->kind == Kind::Object && (tells_length || (!in.list_part(iterable) && !in.dict_part(iterable)));
  if (!is_seen && !is_instance) return nullptr;
  Value* iterator = in.iterate(iterable);
  for (PyObject* name : names) {
    PyObject* found = look_up(in.type_of(iterable), name);
    if (!found || !PyFunction_Check(found)) continue;
    try {
      Value* hint = in.call(type_method(in, iterable, name), {});
      PyObject* number = in.constant_of(hint);
      if (!number || (number != Py_NotImplemented && !PyLong_Check(number)))
        throw Break{BreakId::raises, "a length that is not an int"};
      if (PyLong_Check(number) && PyLong_AsLong(number) < 0) throw Break{BreakId::raises, "a length below 0"};
      if (number != Py_NotImplemented) break;
    } catch (const Raise& raised) {
      if (!is_exception(in, raised.exception, PyExc_TypeError)) throw;
    }
  }
  return iterator;
}

void refuse_endless(size_t items) {
  constexpr size_t kMostItems = 1000000;
  if (items > kMostItems) throw Break{BreakId::internal, "an iterator without an end"};
}

/// All remaining items of an iterator.
static std::vector<Value*> remaining_items(Interpreter& in, Value* iterator) {
  std::vector<Value*> items;
  while (Value* item = in.next(iterator)) {
    items.push_back(item);
    refuse_endless(items.size());
  }
  return items;
}

std::vector<Value*> unpack_hinted(Interpreter& in, Value* iterable) {
  Value* iterator = hinted_iterator(in, iterable);
  return iterator ? remaining_items(in, iterator) : in.unpack(iterable);
}

std::vector<Value*> Interpreter::unpack(Value* iterable) {
  auto* sequence = as_sequence(iterable);
  if (!sequence) return remaining_items(*this, iterate(iterable));
  std::vector<Value*> items;
  for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(item(sequence, i));
  return items;
}

}  // namespace stator::capture
