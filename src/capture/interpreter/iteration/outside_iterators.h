#pragma once

#include "capture/interpreter/interpreter.h"
#include "capture/pycompat/facts.h"

/// Iterators that the program was given, or that a break left on the stack of its loop.
namespace stator::capture {

/// A real iterator whose items can be told before they are taken; they are taken when the plan ends. Where it stands
/// is not looked at: the same capture serves one round of a loop after another.
struct OutsideIterator final : IteratorValue {
  Ref real;
  StatorIterKind form;
  std::vector<Value*> asked;  // by an enumerate or zip
  Py_ssize_t taken = 0;
  bool ended = false;
  OutsideIterator(PyObject* r, StatorIterKind f) : real(Ref::borrow(r)), form(f) {}
  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return Py_TYPE(real.get()); }

 private:
  Value* advance(Interpreter& in);
  Value* number(Interpreter& in);
  Value* row(Interpreter& in);
};

/// Null for iterators of other kinds.
OutsideIterator* outside_iterator(Interpreter& in, PyObject* object, Source* source);

}  // namespace stator::capture
