// The extension module `stator._C`; each file of this folder adds its part.
#include "bindings/backend_bindings.h"
#include "bindings/capture_bindings.h"
#include "bindings/fake_bindings.h"
#include "bindings/function_tracer_bindings.h"
#include "bindings/graph_bindings.h"
#include "bindings/library_statics.h"
#include "bindings/observe_bindings.h"
#include "bindings/passes_bindings.h"
#include "bindings/symbol_bindings.h"
#include "capture/pycompat/ref.h"

static PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_C", "Stator's native part.", -1, nullptr};

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() {
  PyObject* module = PyModule_Create(&module_def);
  if (!module) return nullptr;
  using namespace stator::bindings;
  make_library_statics();
  if (!add_fake_bindings(module) || !add_graph_bindings(module) || !add_function_tracer_bindings(module) ||
      !add_backend_bindings(module) || !add_capture_bindings(module) || !add_observe_bindings(module) ||
      !add_passes_bindings(module) || !add_symbol_bindings(module))
    Py_CLEAR(module);
  return module;
}
