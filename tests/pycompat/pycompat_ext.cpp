#include "pycompat_ext.h"

#include <initializer_list>

namespace {
PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "stator_pycompat_ext", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
}

PyMODINIT_FUNC PyInit_stator_pycompat_ext() {
  PyObject* module = PyModule_Create(&module_def);
  for (auto methods : {decode_methods, facts_methods, frame_methods}) {
    if (module && PyModule_AddFunctions(module, methods()) < 0) Py_CLEAR(module);
  }
  if (module && PyModule_AddObjectRef(module, "NULL", frame_null_marker()) < 0) Py_CLEAR(module);
  return module;
}
