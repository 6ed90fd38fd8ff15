#pragma once

#include <Python.h>

namespace stator::pycompat {

/// Whether it is a view of a dict: a result of keys(), values() or items().
inline bool is_dict_view(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  return type == &PyDictKeys_Type || type == &PyDictValues_Type || type == &PyDictItems_Type;
}

/// The dict behind such a view. Borrowed.
inline PyObject* viewed_dict(PyObject* view) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(view)->dv_dict);
}

}  // namespace stator::pycompat
