#include "capture/interpreter/state/warnings_as_errors.h"

#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {

PyObject* warnings_globals() {
  static PyObject* const dict = PyModule_GetDict(PyImport_ImportModule("warnings"));
  return dict;
}

PyObject* filters_name() {
  static PyObject* const name = PyUnicode_InternFromString("filters");
  return name;
}

/// Invalidates the caches of `_warnings` that depend on the filters.
static void tell_of_change() {
  static PyObject* const function = known_object("_warnings._filters_mutated");
  Ref done = Ref::steal(PyObject_CallNoArgs(function));
  PyErr_Clear();
}

WarningsAsErrors::WarningsAsErrors() : before_(Ref::borrow(stator_dict_get_str(warnings_globals(), filters_name()))) {
  static PyObject* const rules = Py_BuildValue("[(sOOOi)]", "error", Py_None, PyExc_Warning, Py_None, 0);
  if (!before_ || PyDict_SetItem(warnings_globals(), filters_name(), rules) < 0) PyErr_Clear();
  tell_of_change();
}

WarningsAsErrors::~WarningsAsErrors() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!before_ || PyDict_SetItem(warnings_globals(), filters_name(), before_.get()) < 0) PyErr_Clear();
  tell_of_change();
  PyErr_Restore(type, value, trace);
}

}  // namespace stator::capture
