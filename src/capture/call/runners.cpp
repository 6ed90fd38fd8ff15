#include "capture/call/runners.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "core/backend/backend.h"
#include "core/backend/rewind.h"

namespace stator::capture {
namespace {

/// Lets other threads run Python meanwhile.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Keeps warnings, to be given later or not at all.
class KeptWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { kept_.push_back(warning); }
  bool empty() const { return kept_.empty(); }
  void give() const {
    for (const c10::Warning& warning : kept_) c10::warn(warning);
  }

 private:
  std::vector<c10::Warning> kept_;
};

class NativeRunner final : public GraphRunner {
 public:
  explicit NativeRunner(std::shared_ptr<const graph::Graph> graph)
      : GraphRunner(graph->outputs.size()),
        nodes_(static_cast<uint32_t>(graph->nodes.size())),
        rewind_(*graph),
        executable_(backend::compile_reference(std::move(graph))) {}

  bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const override {
    HANDLE_TH_ERRORS
    std::vector<at::Tensor> inputs;
    inputs.reserve(tensors.size());
    for (PyObject* tensor : tensors) inputs.push_back(THPVariable_Unpack(tensor));
    std::vector<at::Tensor> results;
    {
      WithoutGil released;
      backend::Rewind::Saved saved = rewind_.save(inputs);
      KeptWarnings kept;
      try {
        std::optional<c10::WarningUtils::WarningHandlerGuard> silent;
        if (refuses_warnings) silent.emplace(&kept);
        results = executable_->run(std::move(inputs));
      } catch (...) {
        undone = rewind_.restore(saved, backend::failed_node());
        throw;
      }
      if (!kept.empty()) {
        undone = rewind_.restore(saved, nodes_);
        TORCH_CHECK(!undone, "a warning where the program has changed what becomes of warnings");
        kept.give();
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = Ref::steal(THPVariable_Wrap(std::move(results[i])));
      if (!outputs[i]) return false;
    }
    return true;
    END_HANDLE_TH_ERRORS_RET(false)
  }

 private:
  uint32_t nodes_;
  backend::Rewind rewind_;
  std::unique_ptr<backend::Executable> executable_;
};

/// Torch's bindings give a number of the graph to Python as a plain one.
Ref as_tensor(PyObject* result) {
  HANDLE_TH_ERRORS
  if (PyFloat_CheckExact(result))
    return Ref::steal(THPVariable_Wrap(at::scalar_tensor(PyFloat_AS_DOUBLE(result), at::kDouble)));
  if (PyBool_Check(result)) return Ref::steal(THPVariable_Wrap(at::scalar_tensor(result == Py_True, at::kBool)));
  if (!PyLong_CheckExact(result)) return Ref::borrow(result);
  int64_t number = PyLong_AsLongLong(result);
  if (number == -1 && PyErr_Occurred()) return Ref();
  return Ref::steal(THPVariable_Wrap(at::scalar_tensor(number, at::kLong)));
  END_HANDLE_TH_ERRORS_RET(Ref())
}

class PythonRunner final : public GraphRunner {
 public:
  PythonRunner(Ref callable, size_t outputs) : GraphRunner(outputs), callable_(std::move(callable)) {}

  bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool&) const override {
    Ref result = Ref::steal(PyObject_Vectorcall(callable_.get(), tensors.data(), tensors.size(), nullptr));
    if (!result) return false;
    bool is_sequence = PyTuple_CheckExact(result.get()) || PyList_CheckExact(result.get());
    if (!is_sequence && outputs.size() == 1 && THPVariable_Check(result.get())) {
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

std::unique_ptr<GraphRunner> make_native_runner(std::shared_ptr<const graph::Graph> graph) {
  return std::make_unique<NativeRunner>(std::move(graph));
}

std::unique_ptr<GraphRunner> make_python_runner(Ref callable, size_t outputs) {
  return std::make_unique<PythonRunner>(std::move(callable), outputs);
}

}  // namespace stator::capture
