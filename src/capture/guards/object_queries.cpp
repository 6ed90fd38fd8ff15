#include "capture/guards/object_queries.h"

namespace stator::capture {

bool is_deque(PyObject* object) {
  static PyTypeObject* const type = [] {
    Ref module = Ref::steal(PyImport_ImportModule("collections"));
    return module ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module.get(), "deque")) : nullptr;
  }();
  return Py_TYPE(object) == type;
}

Ref answer_of(PyObject* function, PyObject* arguments) {
  Ref answer = Ref::steal(arguments ? PyObject_CallObject(function, arguments) : PyObject_CallNoArgs(function));
  PyErr_Clear();
  return answer;
}

}  // namespace stator::capture
