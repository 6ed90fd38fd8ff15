#include "compile/candidates.h"

#include "capture/cache/code_cache.h"
#include "capture/interpreter/protocol/interpreter.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/facts.h"
#include "compile/reports.h"

namespace stator {
using namespace capture;

std::vector<std::string>& skipped_files() {
  static auto* prefixes = new std::vector<std::string>;
  return *prefixes;
}

namespace {

bool is_skipped_file(const std::string& file) {
  if (file.starts_with("<frozen")) return true;
  for (const std::string& prefix : skipped_files())
    if (file.starts_with(prefix)) return true;
  return false;
}

/// Whether the object is a tensor or a module, or holds one at most `levels` levels below.
bool holds_tensors(PyObject* object, int levels) {
  if (!object) return false;
  if (TorchTracer::is_tensor(object) || is_module_instance(object)) return true;
  if (levels == 0) return false;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (holds_tensors(PySequence_Fast_GET_ITEM(object, i), levels - 1)) return true;
    return false;
  }
  if (PyCell_Check(object)) return holds_tensors(PyCell_GET(object), levels);
  PyObject* dict = PyDict_Check(object) ? object : nullptr;
  if (!dict && stator_instance_dict(object, &dict) != kStatorDictObject) {
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (stator_inline_next(object, &position, &name, &value))
      if (holds_tensors(value, levels - 1)) return true;
    return false;
  }
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    if (holds_tensors(value, levels - 1)) return true;
  return false;
}

/// Whether a global that the code names is torch, one of its modules or functions, or a tensor.
bool names_torch(PyObject* function, PyCodeObject* code) {
  PyObject* globals = PyFunction_GET_GLOBALS(function);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    PyObject* found = stator_dict_get_str(globals, PyTuple_GET_ITEM(code->co_names, i));
    if (!found) continue;
    if (holds_tensors(found, 0)) return true;
    PyObject* named = PyModule_Check(found) ? PyModule_GetNameObject(found) : nullptr;
    Ref name = Ref::steal(named);
    PyErr_Clear();
    if (name && text_of(name.get()).starts_with("torch")) return true;
    if (kind_of_callable(found) == CallableKind::Torch) return true;
  }
  return false;
}

bool can_reach_tensors(const CodeCache& cache, PyObject* function, PyObject* const* slots) {
  if (cache.names_torch) return true;
  const PyCodeObject* code = cache.code();
  int arguments = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                  ((code->co_flags & CO_VARKEYWORDS) != 0);
  for (int i = 0; i < arguments; ++i)
    if (holds_tensors(slots[i], 2)) return true;
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  return closure && holds_tensors(closure, 2);
}

/// Whether the running frame is that of `disable(recursive=False)`, torch's or ours: the function that it calls runs
/// as plain Python.
bool is_called_plainly() {
  PyCodeObject* caller = stator_running_code(PyThreadState_Get());
  return caller && PyUnicode_CompareWithASCIIString(caller->co_name, "nonrecursive_disable_wrapper") == 0;
}

}  // namespace

bool is_worth_capturing(PyObject* function, PyObject* const* slots) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  std::shared_ptr<CodeCache> cache = code_cache(code);
  if (!cache->candidate) {
    cache->candidate = !is_skipped_file(text_of(code->co_filename));
    cache->names_torch = *cache->candidate && names_torch(function, code);
  }
  if (!*cache->candidate || cache->skipped) return false;
  return can_reach_tensors(*cache, function, slots) && !is_called_plainly();
}

}  // namespace stator
