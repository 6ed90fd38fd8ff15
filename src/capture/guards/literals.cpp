#include "capture/guards/literals.h"

#include <cstring>
#include <string_view>
#include <unordered_set>

#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/objects.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

std::unordered_set<PyTypeObject*>& other_literal_types() {
  static std::unordered_set<PyTypeObject*> types;
  return types;
}

bool is_other_literal(PyTypeObject* type) { return other_literal_types().contains(type); }

/// Whether two objects with a buffer, NumPy scalars, have equal bytes.
bool same_buffers(PyObject* a, PyObject* b) {
  Py_buffer x, y;
  if (PyObject_GetBuffer(a, &x, PyBUF_SIMPLE) < 0) {
    PyErr_Clear();
    return false;
  }
  bool same = PyObject_GetBuffer(b, &y, PyBUF_SIMPLE) == 0;
  if (same) {
    same = x.len == y.len && std::memcmp(x.buf, y.buf, static_cast<size_t>(x.len)) == 0;
    PyBuffer_Release(&y);
  }
  PyErr_Clear();
  PyBuffer_Release(&x);
  return same;
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool sequence_equal(PyObject* a, PyObject* b) {
  Py_ssize_t n = PyTuple_GET_SIZE(a);
  if (n != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!literal_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  return true;
}

/// Python compares ranges by their numbers, but a program can read `start`, `stop` and `step`.
bool same_range(PyObject* a, PyObject* b) {
  for (const char* part : {"start", "stop", "step"}) {
    Ref x = Ref::steal(PyObject_GetAttrString(a, part)), y = Ref::steal(PyObject_GetAttrString(b, part));
    if (!x || !y || PyObject_RichCompareBool(x.get(), y.get(), Py_EQ) != 1) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

/// The same elements, of the same classes, in the same order.
bool same_elements(PyObject* a, PyObject* b) {
  if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
  pycompat::SetCursor in_a(a), in_b(b);
  while (PyObject* x = in_a.next())
    if (!literal_equal(x, in_b.next())) return false;
  return true;
}

/// The value of an enum member whose __repr__ is the standard library's; null for any other object.
Ref enum_value(PyObject* object) {
  static PyObject *const repr = PyUnicode_InternFromString("__repr__"), *const name =
                                                                            PyUnicode_InternFromString("_value_");
  PyObject* method = _PyType_Lookup(Py_TYPE(object), repr);
  PyObject* module = method && PyFunction_Check(method) ? PyFunction_GET_MODULE(method) : nullptr;
  bool is_plain = module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "enum") == 0 &&
                  Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr;
  Ref value = is_plain ? Ref::steal(PyObject_GetAttr(object, name)) : Ref();
  PyErr_Clear();
  return value;
}

/// Whether its repr runs no code of the program.
bool is_shown_by_c(PyObject* object, int level) {
  constexpr int kDeepest = 4;
  PyTypeObject* type = Py_TYPE(object);
  if (is_literal_type(type) || type->tp_repr == PyBaseObject_Type.tp_repr) return true;
  if (type == &PyType_Type || PyFunction_Check(object) || PyCFunction_Check(object) || PyModule_Check(object))
    return true;
  if (level == kDeepest) return false;
  if (PyExceptionInstance_Check(object)) {
    bool is_plain = type->tp_repr == reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_repr;
    return is_plain && is_shown_by_c(reinterpret_cast<PyBaseExceptionObject*>(object)->args, level + 1);
  }
  if (PyDict_CheckExact(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value))
      if (!is_shown_by_c(key, level + 1) || !is_shown_by_c(value, level + 1)) return false;
    return true;
  }
  if (PyAnySet_CheckExact(object)) {
    Ref elements = Ref::steal(PySequence_List(object));
    return elements && is_shown_by_c(elements.get(), level);
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_shown_by_c(slice->start, level + 1) && is_shown_by_c(slice->stop, level + 1) &&
           is_shown_by_c(slice->step, level + 1);
  }
  if (Ref value = enum_value(object)) return is_shown_by_c(value.get(), level + 1);
  bool is_sequence = PyList_CheckExact(object) || (PyTuple_Check(object) && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE));
  for (Py_ssize_t i = 0; is_sequence && i < PySequence_Fast_GET_SIZE(object); ++i)
    if (!is_shown_by_c(PySequence_Fast_GET_ITEM(object, i), level + 1)) return false;
  return is_sequence;
}

}  // namespace

void add_literal_type(PyTypeObject* type) { other_literal_types().insert(type); }

bool is_literal_type(PyTypeObject* type) {
  // Fast path: most objects have one of these types, none of which is a literal.
  if (type == &PyFunction_Type || type == &PyType_Type || type == &PyDict_Type || type == &PyCFunction_Type ||
      type == &PyMethodDescr_Type || type == &PyModule_Type)
    return false;
  return type == &PyLong_Type || type == &PyBool_Type || type == &PyUnicode_Type || type == &PyFloat_Type ||
         type == Py_TYPE(Py_None) || type == &PyComplex_Type || type == &PyBytes_Type || type == &PyEllipsis_Type ||
         type == Py_TYPE(Py_NotImplemented) || type == &PyRange_Type || is_other_literal(type) || is_foreign_enum(type);
}

bool is_foreign_enum(PyTypeObject* type) {
  if (Py_TYPE(type) == &PyType_Type || !type->tp_dict) return false;
  // Modules built with different versions of pybind11 have different metaclasses of this name.
  std::string_view metaclass(Py_TYPE(type)->tp_name);
  if (!metaclass.ends_with("pybind11_type")) return false;
  static PyObject* const entries = PyUnicode_InternFromString("__entries");
  return PyDict_GetItemWithError(type->tp_dict, entries) != nullptr;
}

bool is_literal(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (is_literal_type(type)) return true;
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!is_literal(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  if (type == &PyFrozenSet_Type) {
    pycompat::SetCursor cursor(object);
    while (PyObject* element = cursor.next())
      if (!is_literal(element)) return false;
    return true;
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_literal(slice->start) && is_literal(slice->stop) && is_literal(slice->step);
  }
  return false;
}

bool literal_equal(PyObject* a, PyObject* b) {
  if (a == b) return true;
  PyTypeObject* type = Py_TYPE(a);
  if (type != Py_TYPE(b)) return false;
  if (type == &PyFloat_Type) return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (type == &PyComplex_Type) {
    Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return same_bits(x.real, y.real) && same_bits(x.imag, y.imag);
  }
  if (type == &PyUnicode_Type) return PyUnicode_Compare(a, b) == 0;
  if (type == &PyTuple_Type) return sequence_equal(a, b);
  if (type == &PySlice_Type) {
    auto *x = reinterpret_cast<PySliceObject*>(a), *y = reinterpret_cast<PySliceObject*>(b);
    return literal_equal(x->start, y->start) && literal_equal(x->stop, y->stop) && literal_equal(x->step, y->step);
  }
  if (!is_literal_type(type) && type != &PyFrozenSet_Type) return false;
  if (type == &PyFrozenSet_Type) return is_literal(a) && is_literal(b) && same_elements(a, b);
  if (type == &PyRange_Type) return same_range(a, b);
  if (type != &PyBytes_Type && PyObject_CheckBuffer(a)) return same_buffers(a, b);
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

int64_t set_layout(PyObject* object) {
  auto* set = reinterpret_cast<PySetObject*>(object);
  return static_cast<int64_t>(set->mask << 1) | (set->fill == set->used);
}

int64_t abc_token() {
  static PyObject* const get = [] {
    Ref module = Ref::steal(PyImport_ImportModule("_abc"));
    return module ? PyObject_GetAttrString(module.get(), "get_cache_token") : nullptr;
  }();
  Ref token = get ? Ref::steal(PyObject_CallNoArgs(get)) : Ref();
  int64_t value = token ? PyLong_AsLongLong(token.get()) : -1;
  PyErr_Clear();
  return value;
}

/// Without the path of the module's file, which differs between machines.
static std::string module_text(PyObject* module) {
  const char* name = PyModule_GetName(module);
  PyErr_Clear();
  return std::string("<module '") + (name ? name : "?") + "'>";
}

std::string short_repr(PyObject* object) {
  constexpr size_t kLimit = 120;
  if (!object) return "nothing";
  LaterError kept;
  kept.take();
  if (PyModule_Check(object)) return module_text(object);
  NoSignals no_signals;  // repr of a long text checks for signals, whose handlers are code of the program
  Ref text = is_shown_by_c(object, 0) ? Ref::steal(PyObject_Repr(object)) : Ref();
  PyErr_Clear();  // raised for an integer with too many digits
  std::string result = text_of(text.get(), std::string("<") + Py_TYPE(object)->tp_name + " object>");
  if (result.size() > kLimit) result = result.substr(0, kLimit - 3) + "...";
  return result;
}

}  // namespace stator::capture
