#include "bindings/capture_bindings.h"

#include <torch/version.h>

#include "bindings/backend_call.h"
#include "bindings/graph_bindings.h"
#include "capture/cache/code_cache.h"
#include "capture/guards/break_policy.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/hidden.h"
#include "capture/pycompat/text.h"
#include "capture/tensors/tensor_object.h"
#include "compile/candidates.h"
#include "compile/compiled_call.h"
#include "compile/debug_folder.h"
#include "compile/errors.h"
#include "compile/frame_compiler.h"
#include "compile/options.h"
#include "compile/reports.h"
#include "compile/stance.h"
#include "core/fake/fake_tensor.h"
#include "core/observe/counters.h"
#include "core/tracer/tracer.h"

namespace stator::bindings {
namespace {
using namespace capture;

const Setting* find_setting(PyObject* name) {
  for (const Setting& row : settings())
    if (PyUnicode_CompareWithASCIIString(name, row.name) == 0) return &row;
  PyErr_Format(PyExc_AttributeError, "there is no setting %R", name);
  return nullptr;
}

PyObject* get_config(PyObject*, PyObject* name) {
  const Setting* row = find_setting(name);
  if (!row) return nullptr;
  if (row->text) return exact_str(config().*row->text).release();
  return row->flag ? PyBool_FromLong(config().*row->flag) : PyLong_FromLongLong(config().*row->number);
}

PyObject* set_config(PyObject*, PyObject* args) {
  PyObject *name, *value;
  if (!PyArg_ParseTuple(args, "UO", &name, &value)) return nullptr;
  const Setting* row = find_setting(name);
  if (!row) return nullptr;
  if (row->flag) {
    int truth = PyObject_IsTrue(value);
    if (truth < 0) return nullptr;
    config().*row->flag = truth;
  } else if (row->text) {
    if (!PyUnicode_Check(value)) return PyErr_Format(PyExc_TypeError, "%U is a str", name);
    config().*row->text = exact_text_of(value);
  } else {
    int64_t number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    config().*row->number = number;
  }
  Py_RETURN_NONE;
}

PyObject* set_error_types(PyObject*, PyObject* args) {
  PyObject *unsupported, *internal, *limit, *backend, *skip, *forbidden, *oracle, *constraint;
  if (!PyArg_ParseTuple(args, "OOOOOOOO", &unsupported, &internal, &limit, &backend, &skip, &forbidden, &oracle,
                        &constraint))
    return nullptr;
  error_types() = {Ref::borrow(unsupported), Ref::borrow(internal),  Ref::borrow(limit),  Ref::borrow(backend),
                   Ref::borrow(skip),        Ref::borrow(forbidden), Ref::borrow(oracle), Ref::borrow(constraint)};
  Py_RETURN_NONE;
}

PyObject* reset(PyObject*, PyObject*) {
  reset_caches();
  observe::reset_counts();
  Py_RETURN_NONE;
}

PyObject* cache_entries(PyObject*, PyObject* target) {
  Ref code = PyCode_Check(target) ? Ref::borrow(target) : Ref::steal(PyObject_GetAttrString(target, "__code__"));
  if (!code) return nullptr;
  Ref list = Ref::steal(PyList_New(0));
  if (auto cache = find_code_cache(code.as<PyCodeObject>()))
    for (auto& entry : cache->entries()) {
      Ref row = describe_entry(*entry);
      if (!row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
    }
  return list.release();
}

/// lookups() -> [(code, entries, hits, misses, timed hits, their ns)] of all functions that were called since the reset
PyObject* lookups(PyObject*, PyObject*) {
  Ref list = Ref::steal(PyList_New(0));
  for (auto& cache : code_caches()) {
    const CodeCache::Lookups& seen = cache->lookups;
    if (seen.hits + seen.misses == 0) continue;
    Ref row = Ref::steal(Py_BuildValue("(OnKKKL)", cache->code(), static_cast<Py_ssize_t>(cache->entries().size()),
                                       seen.hits, seen.misses, seen.timed, seen.timed_ns));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* forget(PyObject*, PyObject* target) {
  Ref code = PyCode_Check(target) ? Ref::borrow(target) : Ref::steal(PyObject_GetAttrString(target, "__code__"));
  return code ? PyBool_FromLong(forget_cache(code.as<PyCodeObject>())) : nullptr;
}

PyObject* answer_calls_of(PyObject*, PyObject* cls) {
  if (!PyType_Check(cls)) {
    PyErr_SetString(PyExc_TypeError, "answer_calls takes a class");
    return nullptr;
  }
  return PyBool_FromLong(answer_calls(reinterpret_cast<PyTypeObject*>(cls)));
}

PyObject* set_listener(PyObject*, PyObject* callable) {
  Ref before = set_capture_listener(callable == Py_None ? Ref() : Ref::borrow(callable));
  return before ? before.release() : Ref::borrow(Py_None).release();
}

PyObject* set_log(PyObject*, PyObject* log) {
  set_capture_log(Ref::borrow(log));
  Py_RETURN_NONE;
}

PyObject* set_folder_opener(PyObject*, PyObject* opener) {
  set_debug_folder(Ref::borrow(opener));
  Py_RETURN_NONE;
}

PyObject* set_backward_caller(PyObject*, PyObject* caller) {
  backward_caller() = Ref::borrow(caller);
  Py_RETURN_NONE;
}

PyObject* enter_block_of(PyObject*, PyObject* compiled) {
  if (!enter_block(compiled)) return nullptr;
  Py_RETURN_NONE;
}
PyObject* leave_block_of(PyObject*, PyObject*) {
  if (!leave_block()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* set_recorder(PyObject*, PyObject* callable) {
  Ref before = set_failure_recorder(callable == Py_None ? Ref() : Ref::borrow(callable));
  return before ? before.release() : Ref::borrow(Py_None).release();
}

PyObject* set_run_mode(PyObject*, PyObject* state) {
  long value = PyLong_AsLong(state);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  if (value < 0 || value > 2) {
    PyErr_SetString(PyExc_ValueError, "a run mode is 0 (compile), 1 (run only) or 2 (off)");
    return nullptr;
  }
  RunMode before = std::exchange(run_mode(), static_cast<RunMode>(value));
  return PyLong_FromLong(static_cast<long>(before));
}

PyObject* get_break_policy(PyObject*, PyObject*) {
  return Py_NewRef(!break_policy() ? Py_None : *break_policy() ? Py_True : Py_False);
}
PyObject* set_break_policy(PyObject*, PyObject* policy) {
  break_policy() = policy == Py_None ? std::optional<bool>() : policy == Py_True;
  Py_RETURN_NONE;
}

PyObject* set_stance_to(PyObject*, PyObject* args) {
  PyObject *name, *backend;
  int skips_guards;
  if (!PyArg_ParseTuple(args, "OOp", &name, &backend, &skips_guards)) return nullptr;
  return set_stance(name, backend, skips_guards != 0);
}

PyObject* drop_marked_entries(PyObject*, PyObject* callable) {
  drop_marked({callable});
  Py_RETURN_NONE;
}

PyObject* set_skipped_files(PyObject*, PyObject* prefixes) {
  Ref list = Ref::steal(PySequence_Fast(prefixes, "path prefixes are needed"));
  if (!list) return nullptr;
  std::vector<std::string> fresh;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    PyObject* prefix = PySequence_Fast_GET_ITEM(list.get(), i);
    if (!PyUnicode_Check(prefix)) return PyErr_Format(PyExc_TypeError, "a path prefix is a str, not %R", prefix);
    fresh.push_back(text_of(prefix));
  }
  skipped_files() = std::move(fresh);
  Py_RETURN_NONE;
}

PyObject* is_compiling(PyObject*, PyObject*) { Py_RETURN_FALSE; }

/// capture_constant(tensor) -> fake: makes a real tensor a constant of the running capture.
PyObject* capture_constant(PyObject*, PyObject* real) {
  return handle_errors([&]() -> PyObject* {
    tracer::Tracer* running = tracer::Tracer::running();
    if (!running || !is_tensor_object(real)) {
      PyErr_SetString(PyExc_RuntimeError, "capture_constant needs a tensor, and a running capture");
      return nullptr;
    }
    return wrap_tensor(running->add_constant(tensor_of(real)));
  });
}

/// call_unrecorded(callable): calls it on real tensors, without recording nodes, while a capture is running.
PyObject* call_unrecorded(PyObject*, PyObject* callable) {
  const bool hooked = tracer::set_hook(false);
  const bool faking = c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake);
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, false);
  PyObject* result = PyObject_CallNoArgs(callable);
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, faking);
  tracer::set_hook(hooked);
  return result;
}

/// call_cached(function, args, kwargs[, result]): calls a functools.lru_cache function. If `result` is given, it is
/// stored on a cache miss instead of calling the wrapped function.
PyObject* call_cached_function(PyObject*, PyObject* args) {
  PyObject *function, *positional, *keywords, *result = nullptr;
  if (!PyArg_ParseTuple(args, "OO!O!|O", &function, &PyTuple_Type, &positional, &PyDict_Type, &keywords, &result))
    return nullptr;
  if (!result) return PyObject_Call(function, positional, keywords);
  return stator_fill_cache(function, result, positional, keywords);
}

PyMethodDef capture_functions[] = {
    {"set_error_types", set_error_types, METH_VARARGS, nullptr},
    {"reset", reset, METH_NOARGS, nullptr},
    {"get_config", get_config, METH_O, nullptr},
    {"set_config", set_config, METH_VARARGS, nullptr},
    {"cache_entries", cache_entries, METH_O, nullptr},
    {"lookups", lookups, METH_NOARGS, nullptr},
    {"forget", forget, METH_O, nullptr},
    {"answer_calls", answer_calls_of, METH_O, nullptr},
    {"set_capture_listener", set_listener, METH_O, nullptr},
    {"set_capture_log", set_log, METH_O, nullptr},
    {"set_failure_recorder", set_recorder, METH_O, nullptr},
    {"set_debug_folder", set_folder_opener, METH_O, nullptr},
    {"call_cached", call_cached_function, METH_VARARGS, nullptr},
    {"set_backward_caller", set_backward_caller, METH_O, nullptr},
    {"enter_block", enter_block_of, METH_O, nullptr},
    {"leave_block", leave_block_of, METH_NOARGS, nullptr},
    {"run_mode", set_run_mode, METH_O, nullptr},
    {"set_stance", set_stance_to, METH_VARARGS, nullptr},
    {"drop_marked", drop_marked_entries, METH_O, nullptr},
    {"stances", [](PyObject*, PyObject*) { return stance_names(); }, METH_NOARGS, nullptr},
    {"break_policy", get_break_policy, METH_NOARGS, nullptr},
    {"set_break_policy", set_break_policy, METH_O, nullptr},
    {"set_skipped_files", set_skipped_files, METH_O, nullptr},
    {"capture_constant", capture_constant, METH_O, nullptr},
    {"call_unrecorded", call_unrecorded, METH_O, nullptr},
    {"is_compiling_flag", is_compiling, METH_NOARGS, nullptr},
    {},
};

bool add_literal_types() {
  for (const char* path : {"torch.dtype", "torch.device", "torch.Size", "torch.layout", "torch.memory_format",
                           "torch.finfo", "torch.iinfo"}) {
    PyObject* type = known_object(path);
    if (!type) {
      PyErr_Format(PyExc_ImportError, "%s was not found", path);
      return false;
    }
    add_literal_type(reinterpret_cast<PyTypeObject*>(type));
  }
  // NumPy scalars, and dtypes: each dtype has its own class.
  PyObject* dtype = known_object("numpy.dtype");
  for (const char* path : {"numpy.bool_", "numpy.int8", "numpy.int16", "numpy.int32", "numpy.int64", "numpy.uint8",
                           "numpy.uint16", "numpy.uint32", "numpy.uint64", "numpy.float16", "numpy.float32",
                           "numpy.float64", "numpy.complex64", "numpy.complex128"}) {
    PyObject* type = dtype ? known_object(path) : nullptr;
    Ref made = type ? Ref::steal(PyObject_CallOneArg(dtype, type)) : Ref();
    PyErr_Clear();
    if (!made) continue;
    add_literal_type(reinterpret_cast<PyTypeObject*>(type));
    add_literal_type(Py_TYPE(made.get()));
  }
  return true;
}

}  // namespace

/// libtorch's C++ interface differs between releases: the extension works only with the release it was built for.
static bool check_torch_version() {
  Ref torch = Ref::steal(PyImport_ImportModule("torch"));
  Ref version = torch ? Ref::steal(PyObject_GetAttrString(torch.get(), "__version__")) : Ref();
  const char* text = version ? PyUnicode_AsUTF8(version.get()) : nullptr;
  if (!text) return false;
  if (std::string(text).rfind(TORCH_VERSION, 0) == 0) return true;
  PyErr_Format(PyExc_ImportError, "built for torch %s, but torch %s is installed", TORCH_VERSION, text);
  return false;
}

bool add_capture_bindings(PyObject* module) {
  if (!check_torch_version()) return false;
  std::string why = fake::install();
  if (why.empty()) why = tracer::install();
  if (!why.empty()) {
    PyErr_SetString(PyExc_ImportError, why.c_str());
    return false;
  }
  PyTypeObject* type = compiled_function_type();
  if (!type || PyModule_AddFunctions(module, capture_functions) < 0) return false;
  set_transparent_type(type);
  set_backend_call(call_backend);
  const auto to_object = [](std::shared_ptr<graph::Graph> graph) { return Ref::steal(wrap_graph(std::move(graph))); };
  set_graph_wrapper(to_object);
  if (PyModule_AddObjectRef(module, "CompiledFunction", reinterpret_cast<PyObject*>(type)) < 0) return false;
  return add_literal_types();
}

}  // namespace stator::bindings
