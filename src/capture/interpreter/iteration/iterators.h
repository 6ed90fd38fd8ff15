#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Iterators of the program. Each takes items from its source when the real one would, and no more.
namespace stator::capture {

/// An iterator whose class is known when it is made.
struct TypedIterator : IteratorValue {
  PyTypeObject* type_;
  explicit TypedIterator(PyTypeObject* t) : type_(t) {}
  PyTypeObject* type() const override { return type_; }
};

/// Reads the live sequence, so it sees changes made while it runs.
struct SequenceIterator final : IteratorValue {
  SequenceValue* sequence;
  size_t index = 0;
  bool done = false;
  explicit SequenceIterator(SequenceValue* s) : sequence(s) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
  PyTypeObject* type() const override;
};

/// Over items that are known now and can't change. `again`: how a plan makes the iterator, if that is known.
struct ListedIterator final : TypedIterator {
  std::vector<Value*> items;
  size_t index = 0;
  Rebuild again;
  ListedIterator(std::vector<Value*> i, PyTypeObject* t, Rebuild r = {})
      : TypedIterator(t), items(std::move(i)), again(std::move(r)) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
};

/// Over a literal: a real iterator gives the items, one at a time.
struct LiteralIterator final : TypedIterator {
  Ref real;
  Value* over;
  size_t taken = 0;
  LiteralIterator(Ref iterator, Value* o)
      : TypedIterator(Py_TYPE(iterator.get())), real(std::move(iterator)), over(o) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
};

/// Over a dict or a view of it; raises if its keys have changed, as CPython's does.
struct DictIterator final : TypedIterator {
  DictValue* dict;
  ViewValue::Part part;
  bool reverse, done = false;
  size_t index = 0, entries, live;
  DictIterator(DictValue* d, ViewValue::Part p, bool r, PyTypeObject* t)
      : TypedIterator(t), dict(d), part(p), reverse(r), entries(d->entries.size()), live(d->live) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
};

struct SetIterator final : TypedIterator {
  SetValue* set;
  std::vector<Value*> items;
  size_t index = 0;
  uint32_t version;
  bool done = false;
  SetIterator(SetValue* s, std::vector<Value*> i, PyTypeObject* t)
      : TypedIterator(t), set(s), items(std::move(i)), version(s->version) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
};

struct ZipIterator final : IteratorValue {
  std::vector<Value*> parts;
  bool strict = false;
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyZip_Type; }
};

struct EnumerateIterator final : IteratorValue {
  Value* inner;
  Value* count;
  EnumerateIterator(Value* i, Value* c) : inner(i), count(c) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyEnum_Type; }
};

struct MapIterator final : IteratorValue {
  Value* function;
  std::vector<Value*> parts;
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyMap_Type; }
};

struct FilterIterator final : IteratorValue {
  Value* function;
  Value* inner;
  FilterIterator(Value* f, Value* i) : function(f), inner(i) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyFilter_Type; }
};

/// Calls `__next__` of an instance; its StopIteration is raised.
Value* call_next(Interpreter& in, Value* iterator);

/// iter(function, sentinel).
struct CallIterator final : TypedIterator {
  Value *function, *sentinel;
  CallIterator(Value* f, Value* s) : TypedIterator(&PyCallIter_Type), function(f), sentinel(s) {}
  Value* next(Interpreter& in) override;
};

/// Calls __getitem__ with 0, 1, ... until an IndexError; from the end if reversed.
struct ItemIterator final : TypedIterator {
  Value* container;
  Py_ssize_t index, step;
  bool done = false;
  ItemIterator(Value* c, Py_ssize_t i, Py_ssize_t s, PyTypeObject* t)
      : TypedIterator(t), container(c), index(i), step(s) {}
  Value* next(Interpreter& in) override;
  Rebuild rebuild(Interpreter& in) override;
};

/// `reversed(container)`.
Value* reversed_items(Interpreter& in, Value* container);

}  // namespace stator::capture
