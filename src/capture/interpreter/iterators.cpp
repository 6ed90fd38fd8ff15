// Iterators half-way through: over sequences, dicts, ranges, tensors, and the iterator classes of builtins.
#include "capture/interpreter/iterators.h"

#include "capture/interpreter/generators.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"

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

Value* ZipIterator::next(Interpreter& in) {
  std::vector<Value*> row;
  for (size_t i = 0; i < parts.size(); ++i) {
    Value* item = in.next(parts[i]);
    if (!item) {
      if (strict && i > 0)
        in.raise(PyExc_ValueError, "zip() argument " + std::to_string(i + 1) + " is shorter than the others");
      if (strict)
        for (size_t k = 1; k < parts.size(); ++k)
          if (in.next(parts[k]))
            in.raise(PyExc_ValueError, "zip() argument " + std::to_string(k + 1) + " is longer than the others");
      return nullptr;
    }
    row.push_back(item);
  }
  return parts.empty() ? nullptr : in.tuple(std::move(row));
}

Value* EnumerateIterator::next(Interpreter& in) {
  Value* item = in.next(inner);
  if (!item) return nullptr;
  Value* number = count;
  count = in.binary(0, count, in.integer(1));
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
    CallArgs args;
    args.positional = {item};
    if (in.truth(in.call(function, std::move(args)))) return item;
  }
  return nullptr;
}

Value* ChainIterator::next(Interpreter& in) {
  for (;;) {
    if (!current) {
      Value* part = in.next(parts);
      if (!part) return nullptr;
      current = in.iterate(part);
    }
    if (Value* item = in.next(current)) return item;
    current = nullptr;
  }
}

Value* CountIterator::next(Interpreter& in) {
  Value* number = current;
  current = in.binary(0, current, step);
  return number;
}

Value* GeneratorValue::next(Interpreter& in) {
  if (finished) return nullptr;
  if (started) frame->push(in.none());
  started = true;
  frame->yielded = false;
  frame->caller = in.frame;
  Value* value;
  try {
    value = in.run_frame(*frame);
  } catch (const Raise&) {
    finished = true;
    throw;
  }
  if (frame->returned) {
    finished = true;
    result = value;
    return nullptr;
  }
  return value;
}

Value* make_generator(Interpreter& in, std::unique_ptr<Frame> frame) {
  auto* generator = in.arena.make<GeneratorValue>();
  generator->frame = std::move(frame);
  return generator;
}

void finish_send(Interpreter& in, Frame& f, int target) {
  auto* generator = dynamic_cast<GeneratorValue*>(f.top());
  Value* result = generator && generator->result ? generator->result : in.none();
  // With END_SEND at the target the receiver stays below the result; without, the result takes its place.
  if (f.code->instrs[target].op == pycompat::Op::END_SEND)
    f.push(result);
  else
    f.top() = result;
}

Value* Interpreter::iterate(Value* value) {
  if (value->kind == Kind::Iterator) return value;
  if (auto* sequence = as_sequence(value)) return arena.make<SequenceIterator>(sequence);
  if (auto* dict = as<DictValue>(value)) {
    std::vector<Value*> keys;
    for (auto& [key, unused] : mapping_items(*this, dict)) keys.push_back(key);
    return arena.make<ListedIterator>(std::move(keys), &PyDictIterKey_Type);
  }
  if (auto* view = as<ViewValue>(value)) {
    static PyTypeObject* const types[] = {&PyDictIterKey_Type, &PyDictIterValue_Type, &PyDictIterItem_Type};
    std::vector<Value*> items;
    for (auto& [key, item] : mapping_items(*this, view->dict))
      items.push_back(view->part == ViewValue::Part::Keys     ? key
                      : view->part == ViewValue::Part::Values ? item
                                                              : tuple({key, item}));
    return arena.make<ListedIterator>(std::move(items), types[static_cast<size_t>(view->part)]);
  }
  if (auto* tensor = as<TensorValue>(value)) {
    PyObject* fake = fake_of(tensor);
    static PyObject* const unbind = PyUnicode_InternFromString("unbind");
    Value* rows =
        torch_result([&] { return PyObject_CallMethodObjArgs(fake, unbind, nullptr); }, "iteration over a tensor");
    return iterate(rows);
  }
  if (value->kind == Kind::Set || value->kind == Kind::Constant) {
    Ref literal = literal_of(value);
    if (!literal) throw Break{BreakId::unknown_object, "iteration over an object known by identity"};
    Ref iterator = Ref::steal(PyObject_GetIter(literal.get()));
    if (!iterator) {
      PyErr_Clear();
      raise(PyExc_TypeError, std::string("'") + type_of(value)->tp_name + "' object is not iterable");
    }
    std::vector<Value*> items;
    while (PyObject* item = PyIter_Next(iterator.get())) items.push_back(constant(Ref::steal(item)));
    return arena.make<ListedIterator>(std::move(items), Py_TYPE(iterator.get()));
  }
  static PyObject* const iter = PyUnicode_InternFromString("__iter__");
  if (value->kind == Kind::Object) {
    PyTypeObject* type = type_of(value);
    guard_class(type);
    if (!_PyType_Lookup(type, iter)) {
      static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
      if (_PyType_Lookup(type, getitem)) throw Break{BreakId::unknown_object, "iteration by __getitem__"};
      raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
    }
    return call(type_method(*this, value, iter), {});
  }
  throw Break{BreakId::unknown_object, std::string("iteration over a ") + type_of(value)->tp_name};
}

Value* Interpreter::next(Value* iterator) {
  if (iterator->kind == Kind::Iterator) return static_cast<IteratorValue*>(iterator)->next(*this);
  static PyObject* const next_name = PyUnicode_InternFromString("__next__");
  try {
    return call(type_method(*this, iterator, next_name), {});
  } catch (const Raise& raised) {
    if (PyType_IsSubtype(type_of(raised.exception), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
      return nullptr;
    throw;
  }
}

std::vector<Value*> Interpreter::unpack(Value* iterable) {
  std::vector<Value*> items;
  if (auto* sequence = as_sequence(iterable)) {
    for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(item(sequence, i));
    return items;
  }
  constexpr size_t kLimit = 1000000;
  Value* iterator = iterate(iterable);
  while (Value* item = next(iterator)) {
    items.push_back(item);
    if (items.size() > kLimit) throw Break{BreakId::internal, "an iterator without an end"};
  }
  return items;
}

}  // namespace stator::capture
