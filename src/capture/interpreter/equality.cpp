#include "capture/interpreter/equality.h"

#include "capture/guards/literals.h"

namespace stator::capture {

bool same_though_unequal(Interpreter& in, Value* a, Value* b) {
  auto *x = as<ConstantValue>(a), *y = as<ConstantValue>(b);
  if (!x || !y || !x->literal || !y->literal) return false;
  PyObject *p = in.constant_of(x), *q = in.constant_of(y);
  if (!literal_equal(p, q)) return false;
  if (x->source ? x->source == y->source : !y->source && p == q) return true;
  if (!x->source && !y->source) return false;
  throw Break{BreakId::unknown_object, "identity of values that do not equal themselves"};
}

bool same_or_equal(Interpreter& in, Value* a, Value* b) {
  return a == b || in.truth(in.compare(Py_EQ, a, b)) || same_though_unequal(in, a, b);
}

void refuse_unequal_to_itself(PyObject* literal) {
  Ref equal = Ref::steal(PyObject_RichCompare(literal, literal, Py_EQ));
  PyErr_Clear();
  if (equal.get() == Py_False) throw Break{BreakId::unknown_object, "identity of values that do not equal themselves"};
}

}  // namespace stator::capture
