#include "capture/call/new_class.h"

#include <utility>
#include <vector>

#include "capture/pycompat/keep_first.h"

namespace stator::capture {
namespace {

/// Whether instances of the class have a `__set_name__` written in Python. (That of `property` is C and only stores the
/// name.)
bool has_set_name(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__set_name__");
  PyObject* found = _PyType_Lookup(type, name);
  return found && Py_TYPE(found) != &PyMethodDescr_Type;
}

bool has_dict(PyTypeObject* type) { return type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT); }

/// A class whose `__init_subclass__` does nothing, with the memory layout of a class with `__dict__`, or of `object`.
PyObject* class_without_hook(bool with_dict) {
  static PyObject* scope = nullptr;
  keep_first(scope, [] {
    Ref made = Ref::steal(PyDict_New());
    PyDict_SetItemString(made.get(), "__builtins__", PyEval_GetBuiltins());
    static const char* const text =
        "class Dict:\n def __init_subclass__(cls): pass\n"
        "class Bare:\n __slots__ = ()\n def __init_subclass__(cls): pass\n";
    Ref ran = Ref::steal(PyRun_String(text, Py_file_input, made.get(), made.get()));
    return ran ? made : Ref();
  });
  return scope ? PyDict_GetItemString(scope, with_dict ? "Dict" : "Bare") : nullptr;
}

/// The bases with `class_without_hook` in front. `type.__new__` calls the `__init_subclass__` that it finds first, and
/// that one does nothing.
Ref behind_class_without_hook(PyObject* bases) {
  PyObject* silent = class_without_hook(has_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, 0))));
  Ref first = silent ? Ref::steal(PyTuple_Pack(1, silent)) : Ref();
  return first ? Ref::steal(PySequence_Concat(first.get(), bases)) : Ref();
}

}  // namespace

bool has_subclass_hook(PyObject* bases) {
  static PyObject* const name = PyUnicode_InternFromString("__init_subclass__");
  static PyObject* const plain = _PyType_Lookup(&PyBaseObject_Type, name);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    PyObject* base = PyTuple_GET_ITEM(bases, i);
    if (PyType_Check(base) && _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base), name) != plain) return true;
  }
  return false;
}

Ref new_class(PyTypeObject* metaclass, PyObject* name, PyObject* bases, PyObject* names) {
  // Attributes with __set_name__ are set after the class was made, so that `type.__new__` does not call it.
  Ref kept = Ref::steal(PyDict_Copy(names));
  if (!kept) return {};
  std::vector<std::pair<PyObject*, PyObject*>> later;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(names, &position, &key, &value))
    if (has_set_name(Py_TYPE(value))) later.emplace_back(key, value);
  for (auto& [attribute, unused] : later)
    if (PyDict_SetItem(kept.get(), attribute, Py_None) < 0) return {};
  const bool has_hook = has_subclass_hook(bases);
  Ref given = has_hook ? behind_class_without_hook(bases) : Ref::borrow(bases);
  Ref arguments = given ? Ref::steal(PyTuple_Pack(3, name, given.get(), kept.get())) : Ref();
  Ref made = arguments ? Ref::steal(PyType_Type.tp_new(metaclass, arguments.get(), nullptr)) : Ref();
  if (!made) return {};
  static PyObject* const bases_name = PyUnicode_InternFromString("__bases__");
  if (has_hook && PyType_Type.tp_setattro(made.get(), bases_name, bases) < 0) return {};
  for (auto& [attribute, held] : later)
    if (PyType_Type.tp_setattro(made.get(), attribute, held) < 0) return {};
  return made;
}

}  // namespace stator::capture
