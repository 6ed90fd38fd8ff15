#include "capture/interpreter/operators/mixed_operands.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/special_methods.h"

namespace stator::capture {
namespace {

bool is_number_slot(const PyWrapperDescrObject* wrapper) {
  constexpr size_t first = offsetof(PyHeapTypeObject, as_number), after = first + sizeof(PyNumberMethods);
  const auto offset = static_cast<size_t>(wrapper->d_base->offset);
  return offset >= first && offset < after;
}
bool is_comparison(const PyWrapperDescrObject* wrapper) {
  return wrapper->d_base->offset == static_cast<int>(offsetof(PyTypeObject, tp_richcompare));
}

bool is_equality(const char* method) {
  return std::strcmp(method, "__eq__") == 0 || std::strcmp(method, "__ne__") == 0;
}

/// Operators of `type` accept operands of the class `accepts`, beside those of `type` itself.
struct AcceptedOperand {
  PyTypeObject *type, *accepts;
};
const AcceptedOperand kAcceptedOperands[] = {
    {&PyBool_Type, &PyLong_Type},           {&PyFloat_Type, &PyLong_Type},         {&PyComplex_Type, &PyLong_Type},
    {&PyComplex_Type, &PyFloat_Type},       {&PySet_Type, &PyFrozenSet_Type},      {&PyFrozenSet_Type, &PySet_Type},
    {&PyDictKeys_Type, &PySet_Type},        {&PyDictKeys_Type, &PyFrozenSet_Type}, {&PyDictItems_Type, &PySet_Type},
    {&PyDictItems_Type, &PyFrozenSet_Type},
};

bool accepts_operand(PyTypeObject* type, PyTypeObject* other) {
  if (PyType_IsSubtype(other, type)) return true;
  for (const AcceptedOperand& row : kAcceptedOperands)
    if (row.type == type && PyType_IsSubtype(other, row.accepts)) return true;
  return false;
}

/// Whether every operator method of the class returns NotImplemented for all operands that it does not accept.
bool refuses_other_operands(PyTypeObject* type, bool compares) {
  PyTypeObject* const known[] = {&PyLong_Type, &PyBool_Type,      &PyFloat_Type, &PyComplex_Type,
                                 &PySet_Type,  &PyFrozenSet_Type, &PyTuple_Type, &PyList_Type};
  if (std::find(std::begin(known), std::end(known), type) != std::end(known)) return true;
  // The same holds for comparisons of strings, dicts, views, and classes that can't be subclassed.
  return compares && (type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyDict_Type ||
                      !PyType_HasFeature(type, Py_TPFLAGS_BASETYPE));
}

/// Whether the class inherits iteration, membership and length from set or frozenset.
bool is_plain_set(PyTypeObject* type) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__iter__"), PyUnicode_InternFromString("__contains__"),
                                    PyUnicode_InternFromString("__len__")};
  PyTypeObject* base = PyType_IsSubtype(type, &PySet_Type) ? &PySet_Type : &PyFrozenSet_Type;
  return std::all_of(std::begin(names), std::end(names),
                     [&](PyObject* name) { return look_up(type, name) == look_up(base, name); });
}

/// The built-in part of `other` that is all the method of `self` uses; null: not known, the method must be called.
Value* used_part(Interpreter& in, Value* self, Value* other, bool compares) {
  switch (self->kind) {
    case Kind::Dict:
      return compares ? in.dict_part(other) : nullptr;
    case Kind::List:
    case Kind::Tuple:
      return in.list_part(other);
    case Kind::View:
      return is_plain_set(in.type_of(other)) ? set_part(in, other) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

bool is_of_sequence(PyTypeObject* type, const char* method) {
  struct Row {
    const char* method;
    binaryfunc PyNumberMethods::*as_number;
  };
  static constexpr Row kRows[] = {{"__add__", &PyNumberMethods::nb_add},
                                  {"__mul__", &PyNumberMethods::nb_multiply},
                                  {"__rmul__", &PyNumberMethods::nb_multiply},
                                  {"__iadd__", &PyNumberMethods::nb_inplace_add},
                                  {"__imul__", &PyNumberMethods::nb_inplace_multiply}};
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& r) { return std::strcmp(r.method, method) == 0; });
  if (row == std::end(kRows) || !type->tp_as_sequence) return false;
  // A subclass written in Python has a number slot for each operator method that it defines.
  return !type->tp_as_number || !(type->tp_as_number->*row->as_number);
}

Value* built_in_answer(Interpreter& in, const char* method, Value* self, Value* other, const WithPart& with_part) {
  PyTypeObject* type = in.type_of(self);
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  PyObject* found = look_up(type, name.get());
  if (!found) return nullptr;
  if (Py_TYPE(found) == &PyWrapperDescr_Type) {
    auto* wrapper = reinterpret_cast<PyWrapperDescrObject*>(found);
    const bool compares = is_comparison(wrapper);
    if (!compares && !is_number_slot(wrapper)) return nullptr;
    PyTypeObject* owner = PyDescr_TYPE(wrapper);
    if (owner == &PyBaseObject_Type) return nullptr;
    const bool accepts = accepts_operand(owner, in.type_of(other));
    if (!accepts && refuses_other_operands(owner, compares)) return nullptr;
    // Dicts have no order.
    if (compares && self->kind == Kind::Dict && !is_equality(method)) return nullptr;
    if (accepts)
      if (Value* part = used_part(in, self, other, compares)) return with_part(part);
  }
  const bool is_modelled = self->kind == Kind::Set || self->kind == Kind::Dict || type == &PyFrozenSet_Type;
  if (!is_modelled && Py_TYPE(found) != &PyFunction_Type)
    throw Break{BreakId::unknown_object, std::string(type->tp_name) + "." + method + " with an instance"};
  Value* result = in.call(in.bind_descriptor(found, type, self, name.get()), arguments({other}));
  return is_not_implemented(in, result) ? nullptr : result;
}

}  // namespace stator::capture
