#include "capture/interpreter/torch/warning_filters.h"

#include <algorithm>

#include "capture/interpreter/known_types.h"
#include "capture/interpreter/names.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

PyObject* names() {
  static PyObject* const dict = PyModule_GetDict(PyImport_ImportModule("warnings"));
  return dict;
}

PyObject* filters_name() {
  static PyObject* const name = PyUnicode_InternFromString("filters");
  return name;
}

void tell() {
  static PyObject* const function = known_object("_warnings._filters_mutated");
  Ref done = Ref::steal(PyObject_CallNoArgs(function));
  PyErr_Clear();
}

}  // namespace

WarningsAsErrors::WarningsAsErrors() : before_(Ref::borrow(stator_dict_get_str(names(), filters_name()))) {
  static PyObject* const rules = Py_BuildValue("[(sOOOi)]", "error", Py_None, PyExc_Warning, Py_None, 0);
  if (!before_ || PyDict_SetItem(names(), filters_name(), rules) < 0) PyErr_Clear();
  tell();
}

WarningsAsErrors::~WarningsAsErrors() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!before_ || PyDict_SetItem(names(), filters_name(), before_.get()) < 0) PyErr_Clear();
  tell();
  PyErr_Restore(type, value, trace);
}

bool has_changed_filters(Interpreter& in) {
  PyObject* at_start = stator_dict_get_str(names(), filters_name());
  auto written = written_global(in, names(), filters_name());
  Value* before = at_start && in.has_seen(at_start) ? in.wrap(at_start, nullptr) : nullptr;
  if (written && *written != before) return true;
  return before && std::any_of(in.effects.begin(), in.effects.end(),
                               [&](const Effect& effect) { return effect.target == before; });
}

}  // namespace stator::capture
