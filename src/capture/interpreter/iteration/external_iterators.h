#pragma once

#include "capture/interpreter/protocol/interpreter.h"
#include "capture/pycompat/facts.h"

/// Iterators that existed before the capture: arguments, or the iterator of a loop in which a break happened.
namespace stator::capture {

/// A real iterator whose next items can be read without taking them; the plan takes them when it ends. Its position is
/// not guarded, so that one entry serves every round of a loop.
struct ExternalIterator final : IteratorValue {
  Ref real;
  StatorIterKind form;
  std::vector<Value*> asked;  // the inner iterators of an enumerate or zip
  Py_ssize_t taken = 0;
  bool ended = false;
  ExternalIterator(PyObject* r, StatorIterKind f) : real(Ref::borrow(r)), form(f) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return Py_TYPE(real.get()); }

 private:
  Value* advance(Interpreter& in);
  Value* number(Interpreter& in);
  Value* row(Interpreter& in);
};

/// The class of what iterators of this kind go over, where that can change; else null.
PyTypeObject* iterated_class(StatorIterKind kind);
/// Null for iterators of other kinds.
ExternalIterator* external_iterator(Interpreter& in, PyObject* object, Source* source);

}  // namespace stator::capture
