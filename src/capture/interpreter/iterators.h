#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// Reads the live sequence, so it sees changes made while it runs.
struct SequenceIterator final : IteratorValue {
  SequenceValue* sequence;
  size_t index = 0;
  bool done = false;
  explicit SequenceIterator(SequenceValue* s) : sequence(s) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override;
};

/// Over items that are known now.
struct ListedIterator final : IteratorValue {
  std::vector<Value*> items;
  size_t index = 0;
  PyTypeObject* type_;
  ListedIterator(std::vector<Value*> i, PyTypeObject* t) : items(std::move(i)), type_(t) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return type_; }
};

struct ZipIterator final : IteratorValue {
  std::vector<Value*> parts;
  bool strict = false;
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyZip_Type; }
};

struct EnumerateIterator final : IteratorValue {
  Value* inner;
  Value* count;
  EnumerateIterator(Value* i, Value* c) : inner(i), count(c) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyEnum_Type; }
};

struct MapIterator final : IteratorValue {
  Value* function;
  std::vector<Value*> parts;
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyMap_Type; }
};

struct FilterIterator final : IteratorValue {
  Value* function;
  Value* inner;
  FilterIterator(Value* f, Value* i) : function(f), inner(i) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyFilter_Type; }
};

/// itertools.chain: `parts` iterates over iterables.
struct ChainIterator final : IteratorValue {
  Value* parts;
  Value* current = nullptr;
  PyTypeObject* type_;
  ChainIterator(Value* p, PyTypeObject* t) : parts(p), type_(t) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return type_; }
};

struct CountIterator final : IteratorValue {
  Value *current, *step;
  PyTypeObject* type_;
  CountIterator(Value* c, Value* s, PyTypeObject* t) : current(c), step(s), type_(t) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return type_; }
};

}  // namespace stator::capture
