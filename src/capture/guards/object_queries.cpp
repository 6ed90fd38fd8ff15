#include "capture/guards/object_queries.h"

namespace stator::capture {

bool is_deque(PyObject* object) {
  static PyTypeObject* const type = [] {
    Ref module = Ref::steal(PyImport_ImportModule("collections"));
    return module ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module.get(), "deque")) : nullptr;
  }();
  return Py_TYPE(object) == type;
}

Py_ssize_t plain_length(PyObject* object) {
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  if (PyTuple_Check(object)) return PyTuple_GET_SIZE(object);
  if (PyList_Check(object)) return PyList_GET_SIZE(object);
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
  return is_deque(object) ? PyObject_Size(object) : -1;
}

Ref answer_of(PyObject* function, PyObject* arguments) {
  Ref answer = Ref::steal(arguments ? PyObject_CallObject(function, arguments) : PyObject_CallNoArgs(function));
  PyErr_Clear();
  return answer;
}

}  // namespace stator::capture
