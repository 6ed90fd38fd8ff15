#include "bindings/backend_call.h"

#include <algorithm>

#include "bindings/graph_bindings.h"
#include "capture/call/runners.h"
#include "capture/interpreter/state/known_types.h"
#include "compile/errors.h"
#include "compile/graph_facts.h"
#include "core/backend/early_checks.h"
#include "core/backend/registry.h"
#include "core/backend/undo_log.h"
#include "core/graph/control_ops.h"

namespace stator::bindings {
namespace {

Ref take_error() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return Ref::steal(value);
}

void raise_failed(const CompileRequest& request, const graph::Graph& graph, PyObject* inner) {
  Ref error = Ref::steal(PyObject_CallFunction(error_types().backend_failed.get(), "ssO", request.backend.c_str(),
                                               graph.name.c_str(), inner));
  if (!error) return;
  if (PyExceptionInstance_Check(inner)) PyException_SetCause(error.get(), Ref::borrow(inner).release());
  PyErr_SetObject(error_types().backend_failed.get(), error.get());
}

/// Errors that are not wrapped in BackendFailed.
bool is_own_error() {
  return PyErr_ExceptionMatches(error_types().skip_frame.get()) ||
         PyErr_ExceptionMatches(error_types().backend_failed.get()) ||
         PyErr_ExceptionMatches(error_types().unsupported.get()) || !PyErr_ExceptionMatches(PyExc_Exception);
}

/// Restores the random state of Python and of torch's default generator when it is destroyed: a backend must not change
/// the program's random numbers.
class RandomKeeper {
 public:
  RandomKeeper() : python_(read("random.getstate")), torch_(read("torch.random.get_rng_state")) { PyErr_Clear(); }
  ~RandomKeeper() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    write("random.setstate", python_);
    write("torch.random.set_rng_state", torch_);
    PyErr_Restore(type, value, trace);
  }
  RandomKeeper(const RandomKeeper&) = delete;
  RandomKeeper& operator=(const RandomKeeper&) = delete;

 private:
  static Ref read(const char* path) {
    PyObject* function = capture::known_object(path);
    return function ? Ref::steal(PyObject_CallNoArgs(function)) : Ref();
  }
  static void write(const char* path, const Ref& state) {
    if (state) Ref::steal(PyObject_CallOneArg(capture::known_object(path), state.get()));
    PyErr_Clear();
  }

  Ref python_, torch_;
};

/// Whether torch's compilers need what fx_symbols.py makes: symbols of sizes and numbers in the graph, or of what a
/// loop carries; or the context of a compilation, in which they keep what they made of a sub-graph that is called
/// again.
bool has_symbols(const graph::Graph& graph) {
  bool found = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return node.region != 0 || node.op == graph::control_op(graph::ControlOp::WhileLoop);
  });
  graph.definitions.for_each_symbolic([&](const shapes::Expr&) { found = true; });
  return found || std::any_of(graph.values.begin(), graph.values.end(),
                              [](const graph::ValueInfo& value) { return static_cast<bool>(value.number); });
}

/// The object that makes torch's symbols for the graph. Puts examples of the inputs that are sizes before the others.
/// `is_undone`: whether all that a failed run wrote is undone. Null with a Python error set.
Ref make_symbols(PyObject* graph, bool is_undone, Ref& examples) {
  Ref module = Ref::steal(PyImport_ImportModule("stator.fx_symbols"));
  Ref symbols = module ? Ref::steal(PyObject_CallMethod(module.get(), "GraphSymbols", "OOO", graph, examples.get(),
                                                        is_undone ? Py_True : Py_False))
                       : Ref();
  if (!symbols || PyObject_SetAttrString(graph, "symbols", symbols.get()) < 0) return {};
  examples = Ref::steal(PyObject_CallMethod(symbols.get(), "examples", nullptr));
  return examples ? symbols : Ref();
}

/// What the backend relied on while it compiled. False with a Python error set.
bool take_guards(PyObject* symbols, std::vector<BackendGuard>& guards) {
  Ref rows = Ref::steal(PyObject_CallMethod(symbols, "take_guards", nullptr));
  if (!rows || !PyList_Check(rows.get())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows.get()); ++i) {
    const char* truth = nullptr;
    PyObject *names = nullptr, *floats = nullptr;
    PyObject* row = PyList_GET_ITEM(rows.get(), i);
    if (!PyArg_ParseTuple(row, "zO!O!", &truth, &PyList_Type, &names, &PyList_Type, &floats)) return false;
    BackendGuard guard{truth ? truth : "", {}, {}};
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(floats); ++n) {
      const size_t place = PyLong_AsSize_t(PyList_GET_ITEM(floats, n));
      if (place == static_cast<size_t>(-1) && PyErr_Occurred()) return false;
      guard.floats.push_back(place);
    }
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(names); ++n) {
      const char* name = PyUnicode_AsUTF8(PyList_GET_ITEM(names, n));
      if (!name) return false;
      guard.symbols.emplace_back(name);
    }
    guards.push_back(std::move(guard));
  }
  return true;
}

}  // namespace

std::unique_ptr<capture::GraphRunner> call_backend(std::shared_ptr<graph::Graph> graph,
                                                   const std::vector<PyObject*>& inputs, const CompileRequest& request,
                                                   std::vector<BackendGuard>& guards) {
  Ref fx = Ref::steal(PyImport_ImportModule("stator.fx"));
  Ref wrapped = Ref::steal(wrap_graph(graph));
  if (!fx || !wrapped) return nullptr;
  Ref examples = Ref::steal(PyList_New(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) PyList_SET_ITEM(examples.get(), i, Ref::borrow(inputs[i]).release());
  const bool is_undone = backend::UndoLog(*graph, /*keeps_order=*/false).undoes_everything();
  Ref symbols = has_symbols(*graph) ? make_symbols(wrapped.get(), is_undone, examples) : Ref::borrow(Py_None);
  if (!symbols) return nullptr;
  const char* make = makes_leaves(*graph) ? "leaf_graph_module" : "lazy_graph_module";
  Ref module = Ref::steal(PyObject_CallMethod(fx.get(), make, "O", wrapped.get()));
  if (!module) return nullptr;
  Ref callable;
  {
    RandomKeeper keeper;
    callable = Ref::steal(PyObject_CallFunctionObjArgs(request.compiler.get(), module.get(), examples.get(), nullptr));
  }
  if (!callable) {
    if (PyErr_ExceptionMatches(error_types().backend_failed.get())) {
      // Its traceback has only frames of Stator: it gets those of the backend.
      Ref error = take_error(), cause = Ref::steal(PyException_GetCause(error.get()));
      Ref trace = Ref::steal(cause ? PyException_GetTraceback(cause.get()) : nullptr);
      PyException_SetTraceback(error.get(), trace ? trace.get() : Py_None);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
      return nullptr;
    }
    if (is_own_error()) return nullptr;
    Ref inner = take_error();
    raise_failed(request, *graph, inner.get());
    return nullptr;
  }
  if (!PyCallable_Check(callable.get())) {
    Ref text =
        Ref::steal(PyUnicode_FromFormat("it returned a %s, which cannot be called", Py_TYPE(callable.get())->tp_name));
    raise_failed(request, *graph, text.get());
    return nullptr;
  }
  if (!Py_IsNone(symbols.get()) && !take_guards(symbols.get(), guards)) return nullptr;
  Ref lazy_type = Ref::steal(PyObject_GetAttrString(fx.get(), "LazyGraphModule"));
  bool untouched =
      callable.get() == module.get() && reinterpret_cast<PyObject*>(Py_TYPE(module.get())) == lazy_type.get();
  if (untouched || unwrap_graph(callable.get()) == graph) {
    // The native runner keeps the order of nodes, and so what may fail comes first, as if it ran before the graph.
    if (backend::early_part(*graph)) backend::check_early(*graph, backend::UndoLog(*graph));
    return capture::make_native_runner(graph, backend::Choice());
  }
  return capture::make_python_runner(std::move(callable), graph);
}

}  // namespace stator::bindings
