#include "capture/interpreter/protocol/equality.h"

#include "capture/guards/literals.h"

namespace stator::capture {
namespace {

/// Values of different families compare by identity only.
enum class Family : uint8_t { Unknown, Tuple, List, Dict, Set, Other, Literal };
Family family_of(Interpreter& in, Value* value) {
  switch (value->kind) {
    case Kind::Tuple:
      return Family::Tuple;
    case Kind::List:
      return Family::List;
    case Kind::Dict:
      return Family::Dict;
    case Kind::Set:
      return Family::Set;
    case Kind::View:
      return static_cast<ViewValue*>(value)->part == ViewValue::Part::Values ? Family::Other : Family::Set;
    case Kind::Function:
    case Kind::Iterator:
      return Family::Other;
    case Kind::Constant: {
      PyTypeObject* type = in.type_of(value);
      if (PyType_IsSubtype(type, &PyTuple_Type)) return Family::Tuple;
      if (type == &PyFrozenSet_Type) return Family::Set;
      if (is_literal_type(type)) return Family::Literal;
      return PyType_Check(in.constant_of(value)) && Py_TYPE(in.constant_of(value)) == &PyType_Type ? Family::Other
                                                                                                   : Family::Unknown;
    }
    default:
      return Family::Unknown;
  }
}

}  // namespace

bool compare_by_identity(Interpreter& in, int op, Value* a, Value* b) {
  Family x = family_of(in, a), y = family_of(in, b);
  if (x == Family::Unknown || y == Family::Unknown) return false;
  return x != y || x == Family::Other || (x == Family::Dict && op != Py_EQ && op != Py_NE);
}

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

bool is_exact_tuple(const SequenceValue* sequence) {
  return sequence->type == &PyTuple_Type && (!sequence->external || PyTuple_CheckExact(sequence->external.get()));
}

}  // namespace stator::capture
