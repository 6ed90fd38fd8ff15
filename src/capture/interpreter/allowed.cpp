#include "capture/interpreter/allowed.h"

namespace stator::capture {

bool is_allowed_in_graph(PyObject* callable) {
  static PyObject* const name = PyUnicode_InternFromString("torch._dynamo.trace_rules");
  // Not imported for this: where it is not, nobody has said so.
  PyObject* rules = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  Ref table = rules ? Ref::steal(PyObject_GetAttrString(rules, "_allowed_callable_ids")) : Ref();
  Ref ids = table ? Ref::steal(PyObject_GetAttrString(table.get(), "function_ids")) : Ref();
  Ref id = ids && PySet_Check(ids.get()) ? Ref::steal(PyLong_FromVoidPtr(callable)) : Ref();
  bool is_allowed = id && PySet_Contains(ids.get(), id.get()) == 1;
  PyErr_Clear();
  return is_allowed;
}

}  // namespace stator::capture
