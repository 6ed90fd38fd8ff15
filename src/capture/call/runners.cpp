#include "capture/call/runners.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include "capture/call/gil.h"
#include "capture/tensors/tensor_object.h"
#include "core/backend/precheck.h"
#include "core/backend/registry.h"
#include "core/backend/undo_log.h"
#include "core/shapes/number_ops.h"

namespace stator::capture {
namespace {

/// Collects torch's warnings instead of showing them.
class KeptWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { kept_.push_back(warning); }
  bool empty() const { return kept_.empty(); }
  void show() const {
    for (const c10::Warning& warning : kept_) c10::warn(warning);
  }

 private:
  std::vector<c10::Warning> kept_;
};

/// What the reference executor gets for an input: a size becomes a number tensor.
at::Tensor graph_input(PyObject* input) {
  if (PyLong_CheckExact(input)) return shapes::number_tensor(static_cast<int64_t>(PyLong_AsLongLong(input)));
  return tensor_of(input);
}

std::vector<at::Tensor> graph_inputs(std::span<PyObject* const> inputs) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (PyObject* input : inputs) tensors.push_back(graph_input(input));
  return tensors;
}

class NativeRunner final : public GraphRunner {
 public:
  NativeRunner(std::shared_ptr<const graph::Graph> graph, const backend::Choice& backend)
      : GraphRunner(graph->outputs.size()), undo_log_(*graph), executable_(backend.compile(std::move(graph))) {}

  bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const override {
    return handle_errors([&]() -> PyObject* { return run_graph(tensors, outputs, undone) ? Py_None : nullptr; });
  }

 private:
  bool run_graph(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const {
    std::vector<at::Tensor> inputs = graph_inputs(tensors);
    std::vector<at::Tensor> results;
    {
      WithoutGil released;
      backend::UndoLog::Saved saved = undo_log_.save(inputs);
      KeptWarnings kept;
      try {
        std::optional<c10::WarningUtils::WarningHandlerGuard> silent;
        if (refuses_warnings) silent.emplace(&kept);
        results = executable_->run(std::move(inputs));
      } catch (...) {
        undone = undo_log_.restore(saved, executable_->failure());
        throw;
      }
      if (!kept.empty()) {
        undone = undo_log_.restore(saved, {backend::Failure::Wrote::CannotTell});
        TORCH_CHECK(!undone, "torch warned while the program has changed the warning filters");
        kept.show();
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = Ref::steal(wrap_tensor(std::move(results[i])));
      if (!outputs[i]) return false;
    }
    return true;
  }

  backend::UndoLog undo_log_;
  std::unique_ptr<backend::Executable> executable_;
};

/// A number of the graph: torch's bindings return zero-dimensional tensors of `stator::item` as Python numbers.
Ref as_tensor(PyObject* result) {
  if (is_tensor_object(result)) return Ref::borrow(result);
  return Ref::steal(handle_errors([&]() -> PyObject* {
    if (PyFloat_CheckExact(result)) return wrap_tensor(at::scalar_tensor(PyFloat_AS_DOUBLE(result), at::kDouble));
    if (PyBool_Check(result)) return wrap_tensor(at::scalar_tensor(result == Py_True, at::kBool));
    if (!PyLong_CheckExact(result)) return Ref::borrow(result).release();
    int64_t number = PyLong_AsLongLong(result);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    return wrap_tensor(at::scalar_tensor(number, at::kLong));
  }));
}

/// After a backend's code raised: leaves the modes that it left open (none was active when the run began), and drops
/// the locals of its frames, among which may be objects that change the dispatcher's state when they die. Keeps the
/// Python error.
void release_failed_run() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Ref module = Ref::steal(PyImport_ImportModule("stator.ambient"));
  if (module) Ref::steal(PyObject_CallMethod(module.get(), "release", "Oii", value, 0, 0));
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

/// Whether the error is that of an assert about sizes that Python code added to the graph: the values of these sizes
/// are no error, but the graph was not compiled for them. The text is that of python/stator/fx_size_asserts.py.
bool is_size_assert(PyObject* error) {
  constexpr std::string_view kText = "a size that depends on data has a value for which this graph was not compiled";
  if (!error || !PyObject_TypeCheck(error, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError))) return false;
  Ref text = Ref::steal(PyObject_Str(error));
  Py_ssize_t size = 0;
  const char* data = text ? PyUnicode_AsUTF8AndSize(text.get(), &size) : nullptr;
  if (!data) PyErr_Clear();
  return data && std::string_view(data, static_cast<size_t>(size)).find(kText) != std::string_view::npos;
}

/// Whether an operator of the graph raises, or warns where `refuses_warnings`: the reference executor runs it, and what
/// it wrote is undone.
bool raises_natively(const std::shared_ptr<const graph::Graph>& graph, const backend::UndoLog& undo_log,
                     std::span<PyObject* const> tensors, bool refuses_warnings) {
  bool raised = false;
  handle_errors([&]() -> PyObject* {
    std::vector<at::Tensor> inputs = graph_inputs(tensors);
    WithoutGil released;
    KeptWarnings kept;
    c10::WarningUtils::WarningHandlerGuard silent(&kept);
    const backend::UndoLog::Saved saved = undo_log.save(inputs);
    const std::unique_ptr<backend::Executable> executable = backend::compile_reference(graph);
    try {
      executable->run(std::move(inputs));
    } catch (const std::exception&) {
      raised = undo_log.restore(saved, executable->failure());
      return Py_None;
    }
    const bool undone = undo_log.restore(saved, {backend::Failure::Wrote::CannotTell});
    raised = undone && refuses_warnings && !kept.empty();
    return Py_None;
  });
  PyErr_Clear();
  return raised;
}

/// Calls what a Python backend made of a graph. Such a backend may compute in any order and need not say how far it
/// came. So a failed run is undone as a whole; and because its error may be one of the backend itself, the reference
/// executor decides whether an operator of the program raised.
class PythonRunner final : public GraphRunner {
 public:
  PythonRunner(Ref callable, std::shared_ptr<const graph::Graph> graph)
      : GraphRunner(graph->outputs.size()),
        callable_(std::move(callable)),
        undo_log_(*graph, /*keeps_order=*/false),
        precheck_(backend::make_precheck(*graph)),
        graph_(std::move(graph)) {}

  bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const override {
    if (!passes_precheck(tensors)) {
      PyErr_SetString(PyExc_RuntimeError, "a number or an assumption of the graph does not hold");
      undone = true;
      return false;
    }
    backend::UndoLog::Saved saved;
    if (undo_log_.saves() && !save(tensors, saved)) return false;
    Ref result = call(tensors);
    // A result may not fit the graph, such as an int above the largest int64.
    if (result && take_results(std::move(result), outputs)) return true;
    release_failed_run();
    if (PyErr_ExceptionMatches(PyExc_Exception))
      undone = undo_log_.restore(saved, {backend::Failure::Wrote::CannotTell});
    return false;
  }

  bool is_programs_error(std::span<PyObject* const> tensors) const override {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    const bool raises = is_size_assert(value) || !passes_precheck(tensors) ||
                        raises_natively(graph_, undo_log_, tensors, refuses_warnings);
    PyErr_Restore(type, value, trace);
    return raises;
  }

 private:
  /// Whether the computations of the graph that may fail do not fail, as far as they can run before it.
  bool passes_precheck(std::span<PyObject* const> tensors) const {
    if (!precheck_) return true;
    bool passes = false;
    handle_errors([&]() -> PyObject* {
      const std::vector<at::Tensor> inputs = graph_inputs(tensors);
      WithoutGil released;
      KeptWarnings kept;
      c10::WarningUtils::WarningHandlerGuard silent(&kept);
      passes = precheck_->passes(inputs);
      return Py_None;
    });
    PyErr_Clear();
    return passes;
  }

  Ref call(std::span<PyObject* const> tensors) const {
    if (!refuses_warnings || !undo_log_.undoes_everything())
      return Ref::steal(PyObject_Vectorcall(callable_.get(), tensors.data(), tensors.size(), nullptr));
    Ref module = Ref::steal(PyImport_ImportModule("stator.ambient"));
    Ref caller = module ? Ref::steal(PyObject_GetAttrString(module.get(), "call_without_warnings")) : Ref();
    if (!caller) return {};
    std::vector<PyObject*> row{callable_.get()};
    row.insert(row.end(), tensors.begin(), tensors.end());
    return Ref::steal(PyObject_Vectorcall(caller.get(), row.data(), row.size(), nullptr));
  }

  bool save(std::span<PyObject* const> tensors, backend::UndoLog::Saved& saved) const {
    return handle_errors([&]() -> PyObject* {
      saved = undo_log_.save(graph_inputs(tensors));
      return Py_None;
    });
  }

  static bool take_results(Ref result, std::span<Ref> outputs) {
    bool is_sequence = PyTuple_CheckExact(result.get()) || PyList_CheckExact(result.get());
    if (!is_sequence && outputs.size() == 1 && is_tensor_object(result.get())) {
      outputs[0] = std::move(result);
      return true;
    }
    Ref sequence = Ref::steal(PySequence_Fast(result.get(), "a backend's function must return a sequence of tensors"));
    if (!sequence) return false;
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence.get())) != outputs.size()) {
      PyErr_Format(PyExc_RuntimeError, "a backend's function returned %zd values where the graph has %zu outputs",
                   PySequence_Fast_GET_SIZE(sequence.get()), outputs.size());
      return false;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = as_tensor(PySequence_Fast_GET_ITEM(sequence.get(), i));
      if (!outputs[i]) return false;
    }
    return true;
  }

  Ref callable_;
  backend::UndoLog undo_log_;
  std::unique_ptr<backend::Precheck> precheck_;  // null: the graph needs none
  std::shared_ptr<const graph::Graph> graph_;
};

class PlainTensorsRunner final : public GraphRunner {
 public:
  PlainTensorsRunner(std::unique_ptr<GraphRunner> runner, std::vector<uint32_t> positions, PyObject* plain)
      : GraphRunner(runner->output_count()),
        runner_(std::move(runner)),
        positions_(std::move(positions)),
        plain_(Ref::borrow(plain)) {
    refuses_warnings = runner_->refuses_warnings;
  }

  bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const override {
    std::vector<Ref> made;
    const std::vector<PyObject*> row = convert(tensors, made);
    undone = row.empty();
    return !row.empty() && runner_->run(row, outputs, undone);
  }

  bool is_programs_error(std::span<PyObject* const> tensors) const override {
    return runner_->is_programs_error(tensors);
  }

 private:
  /// Empty with a Python error set on failure. `made` keeps the converted ones alive.
  std::vector<PyObject*> convert(std::span<PyObject* const> tensors, std::vector<Ref>& made) const {
    static PyObject* const method = PyUnicode_InternFromString("as_subclass");
    std::vector<PyObject*> row(tensors.begin(), tensors.end());
    for (const uint32_t position : positions_) {
      made.push_back(Ref::steal(PyObject_CallMethodOneArg(row[position], method, plain_.get())));
      if (!made.back()) return {};
      row[position] = made.back().get();
    }
    return row;
  }

  std::unique_ptr<GraphRunner> runner_;
  std::vector<uint32_t> positions_;
  Ref plain_;
};

}  // namespace

std::unique_ptr<GraphRunner> make_runner_of_plain_tensors(std::unique_ptr<GraphRunner> runner,
                                                          std::vector<uint32_t> positions, PyObject* plain) {
  return std::make_unique<PlainTensorsRunner>(std::move(runner), std::move(positions), plain);
}

std::unique_ptr<GraphRunner> make_native_runner(std::shared_ptr<const graph::Graph> graph,
                                                const backend::Choice& backend) {
  return std::make_unique<NativeRunner>(std::move(graph), backend);
}

bool raises_in_reference(const std::shared_ptr<const graph::Graph>& graph, std::span<PyObject* const> tensors) {
  auto is_known = [](PyObject* input) { return is_tensor_object(input) || PyLong_CheckExact(input); };
  if (!std::all_of(tensors.begin(), tensors.end(), is_known)) return false;  // floats, arrays
  const backend::UndoLog undo_log(*graph, /*keeps_order=*/false);
  return undo_log.undoes_everything() && raises_natively(graph, undo_log, tensors, false);
}

std::unique_ptr<GraphRunner> make_python_runner(Ref callable, std::shared_ptr<const graph::Graph> graph) {
  return std::make_unique<PythonRunner>(std::move(callable), std::move(graph));
}

}  // namespace stator::capture
