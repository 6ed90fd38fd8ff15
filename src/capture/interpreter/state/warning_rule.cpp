#include "capture/interpreter/state/warning_rule.h"

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

// `warnings._filters_mutated` is not called: it would empty the registries, and warnings that the program has given
// once would be given again. Neither action adds to a registry.
WarningRule::WarningRule(Action action)
    : before_(Ref::borrow(stator_dict_get_str(warnings_globals(), filters_name()))) {
  auto make = [](const char* text) { return Py_BuildValue("[(sOOOi)]", text, Py_None, PyExc_Warning, Py_None, 0); };
  static PyObject *const errors = make("error"), *const ignored = make("ignore");
  PyObject* rules = action == Action::Error ? errors : ignored;
  if (!before_ || PyDict_SetItem(warnings_globals(), filters_name(), rules) < 0) PyErr_Clear();
}

WarningRule::~WarningRule() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!before_ || PyDict_SetItem(warnings_globals(), filters_name(), before_.get()) < 0) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

}  // namespace stator::capture
