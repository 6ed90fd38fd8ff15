#include "capture/call/runners.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include "capture/call/gil.h"
#include "capture/tensors/tensor_object.h"
#include "core/backend/registry.h"
#include "core/backend/undo_log.h"

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

class NativeRunner final : public GraphRunner {
 public:
  NativeRunner(std::shared_ptr<const graph::Graph> graph, const backend::Choice& backend)
      : GraphRunner(graph->outputs.size()), undo_log_(*graph), executable_(backend.compile(std::move(graph))) {}

  bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const override {
    return handle_errors([&]() -> PyObject* { return run_graph(tensors, outputs, undone) ? Py_None : nullptr; });
  }

 private:
  bool run_graph(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const {
    std::vector<at::Tensor> inputs;
    inputs.reserve(tensors.size());
    for (PyObject* tensor : tensors) inputs.push_back(tensor_of(tensor));
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
  return Ref::steal(handle_errors([&]() -> PyObject* {
    if (PyFloat_CheckExact(result)) return wrap_tensor(at::scalar_tensor(PyFloat_AS_DOUBLE(result), at::kDouble));
    if (PyBool_Check(result)) return wrap_tensor(at::scalar_tensor(result == Py_True, at::kBool));
    if (!PyLong_CheckExact(result)) return Ref::borrow(result).release();
    int64_t number = PyLong_AsLongLong(result);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    return wrap_tensor(at::scalar_tensor(number, at::kLong));
  }));
}

class PythonRunner final : public GraphRunner {
 public:
  PythonRunner(Ref callable, size_t outputs) : GraphRunner(outputs), callable_(std::move(callable)) {}

  bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool&) const override {
    Ref result = Ref::steal(PyObject_Vectorcall(callable_.get(), tensors.data(), tensors.size(), nullptr));
    if (!result) return false;
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

 private:
  Ref callable_;
};

}  // namespace

std::unique_ptr<GraphRunner> make_native_runner(std::shared_ptr<const graph::Graph> graph,
                                                const backend::Choice& backend) {
  return std::make_unique<NativeRunner>(std::move(graph), backend);
}

std::unique_ptr<GraphRunner> make_python_runner(Ref callable, size_t outputs) {
  return std::make_unique<PythonRunner>(std::move(callable), outputs);
}

}  // namespace stator::capture
