#include "bindings/function_tracer_bindings.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <new>
#include <unordered_map>

#include "bindings/boxed_call.h"
#include "bindings/graph_bindings.h"
#include "bindings/graph_convert.h"
#include "capture/call/number_nodes.h"
#include "capture/tensors/tensor_object.h"
#include "core/fake/fake_tensor.h"
#include "core/tracer/function_tracer.h"

namespace stator::bindings {
using namespace capture;
namespace {

using tracer::FunctionTracer;
using tracer::TraceFailure;
using tracer::TraceMode;

/// Python functions that compute operators by others, as in `decomposition_table`.
class DecompositionTable {
 public:
  explicit DecompositionTable(const py::dict& table) {
    for (const auto& [overload, function] : table) {
      if (!py::hasattr(overload, "_schema")) continue;
      const py::object schema = overload.attr("_schema");
      const auto op = c10::Dispatcher::singleton().findSchema(
          {schema.attr("name").cast<std::string>(), schema.attr("overload_name").cast<std::string>()});
      if (op) functions_.emplace(&op->schema(), py::reinterpret_borrow<py::object>(function));
    }
  }
  ~DecompositionTable() {  // NOLINT(bugprone-exception-escape): the destructors of Python objects do not throw
    py::gil_scoped_acquire gil;
    functions_.clear();
  }
  DecompositionTable(const DecompositionTable&) = delete;

  bool empty() const { return functions_.empty(); }

  bool apply(const c10::OperatorHandle& op, torch::jit::Stack* stack) const {
    const auto found = functions_.find(&op.schema());
    if (found == functions_.end()) return false;
    py::gil_scoped_acquire gil;
    return call_boxed(found->second.ptr(), op, stack);
  }

 private:
  std::unordered_map<const c10::FunctionSchema*, py::object> functions_;
};

/// The node of a torch.SymInt, SymFloat or SymBool; null for other objects, and for numbers of other libraries.
c10::SymNode node_of(py::handle number) {
  if (!torch::is_symint(number) && !torch::is_symfloat(number) && !torch::is_symbool(number)) return {};
  const py::object node = number.attr("node");
  return py::isinstance<c10::SymNodeImpl>(node) ? node.cast<c10::SymNode>() : c10::SymNode();
}

/// The symbolic number that torch's bindings remember on a tensor which they pass in its place.
c10::SymNode number_of(const at::Tensor& placeholder) {
  py::gil_scoped_acquire gil;
  const py::object object = py::reinterpret_steal<py::object>(THPVariable_Wrap(placeholder));
  return py::hasattr(object, "_wrapped_number") ? node_of(object.attr("_wrapped_number")) : c10::SymNode();
}

/// Torch's bindings take symbolic floats and truths only as nodes that hold a Python object.
c10::SymNode wrap_number(c10::SymNode node) {
  py::gil_scoped_acquire gil;
  return c10::make_intrusive<torch::impl::PythonSymNodeImpl>(py::cast(std::move(node)));
}

struct FunctionTracerObject {
  PyObject_HEAD FunctionTracer* tracer;
};

FunctionTracer& function_tracer_of(PyObject* object) {
  return *reinterpret_cast<FunctionTracerObject*>(object)->tracer;
}

PyObject* traced_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return handle_errors([&]() -> PyObject* {
    const char *name = nullptr, *mode = nullptr;
    int above = 0, allow_real = 0, refuse_reads = 1;
    PyObject *table = nullptr, *locate = nullptr;
    static const char* names[] = {"name", "mode", "above", "allow_real", "refuse_reads", "table", "locate", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sspppO!O:FunctionTracer", const_cast<char**>(names), &name, &mode,
                                     &above, &allow_real, &refuse_reads, &PyDict_Type, &table, &locate)) {
      return nullptr;
    }
    if (auto reason = tracer::install_function_tracer(); !reason.empty()) {
      return PyErr_Format(PyExc_RuntimeError, "cannot trace: %s", reason.c_str());
    }
    install_number_nodes();
    const std::string_view text = mode;
    tracer::FunctionTracerOptions options{
        text == "real" ? TraceMode::Real : (text == "fake" ? TraceMode::Fake : TraceMode::Symbolic), above != 0,
        allow_real != 0, refuse_reads != 0};
    auto decompositions = std::make_shared<DecompositionTable>(py::reinterpret_borrow<py::dict>(table));
    tracer::FunctionTracerHost host;
    host.number_of = number_of;
    host.wrap_number = wrap_number;
    if (!decompositions->empty()) {
      host.decompose = [decompositions](const c10::OperatorHandle& op, torch::jit::Stack* stack) {
        return decompositions->apply(op, stack);
      };
    }
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    reinterpret_cast<FunctionTracerObject*>(object)->tracer = new FunctionTracer(name, options, std::move(host));
    return object;
  });
}

void traced_dealloc(PyObject* object) {
  auto* type = Py_TYPE(object);
  delete reinterpret_cast<FunctionTracerObject*>(object)->tracer;
  type->tp_free(object);
  Py_DECREF(type);
}

bool expect_tensor(PyObject* object) {
  if (is_tensor_object(object)) return true;
  PyErr_Format(PyExc_TypeError, "expected a tensor, not %s", Py_TYPE(object)->tp_name);
  return false;
}

PyObject* traced_input(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject* real = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "Os:input", &real, &name) || !expect_tensor(real)) return nullptr;
    return wrap_tensor(function_tracer_of(self).add_input(tensor_of(real), name));
  });
}

PyObject* traced_integer_input(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    long long number = 0;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "Ls:integer_input", &number, &name)) return nullptr;
    return py::cast(function_tracer_of(self).add_integer_input(number, name)).release().ptr();
  });
}

PyObject* traced_call(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject *function = nullptr, *given = nullptr;
    if (!PyArg_ParseTuple(args, "OO!:call", &function, &PyTuple_Type, &given)) return nullptr;
    auto& tracer = function_tracer_of(self);
    fake::take_poison();  // of what used fakes of an earlier trace
    tracer.add_gradients();
    PyObject* result = nullptr;
    {
      const tracer::FunctionTraceScope scope(tracer);
      result = PyObject_CallObject(function, given);
    }
    tracer.settle_gradients();
    return result;
  });
}

/// (kind, message) of what made the trace useless, or None. Clears the thread's flag.
PyObject* traced_failure(PyObject* self, PyObject*) {
  auto& tracer = function_tracer_of(self);
  if (fake::is_poisoned()) tracer.fail({TraceFailure::Kind::Unsupported, fake::take_poison()});
  if (!tracer.failure()) Py_RETURN_NONE;
  static constexpr const char* kKinds[] = {"real tensor", "data read", "unsupported"};
  return Py_BuildValue("(ss)", kKinds[static_cast<size_t>(tracer.failure()->kind)], tracer.failure()->message.c_str());
}

/// The number of the value that a result is.
PyObject* traced_output(PyObject* self, PyObject* result) {
  return handle_errors([&]() -> PyObject* {
    if (is_tensor_object(result)) return PyLong_FromUnsignedLong(function_tracer_of(self).output(tensor_of(result)));
    const c10::SymNode node = node_of(result);
    if (!node)
      return PyErr_Format(PyExc_TypeError, "expected a tensor or a symbolic number, not %s", Py_TYPE(result)->tp_name);
    return PyLong_FromUnsignedLong(function_tracer_of(self).output(node.get()));
  });
}

PyObject* traced_attributes(PyObject* self, PyObject*) {
  return handle_errors([&]() -> PyObject* {
    return list_of(function_tracer_of(self).attributes(), [](const at::Tensor& t) { return owned(wrap_tensor(t)); })
        .release();
  });
}

PyObject* traced_real_of(PyObject* self, PyObject* fake) {
  return handle_errors([&]() -> PyObject* {
    return expect_tensor(fake) ? wrap_tensor(function_tracer_of(self).real_of(tensor_of(fake))) : nullptr;
  });
}

PyObject* traced_pause(PyObject* self, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  return wanted < 0 ? nullptr : PyBool_FromLong(function_tracer_of(self).pause(wanted != 0));
}

PyObject* traced_finish(PyObject* self, PyObject* outputs) {
  return handle_errors([&]() -> PyObject* {
    std::vector<graph::ValueId> ids;
    const Ref sequence = Ref::steal(PySequence_Fast(outputs, "finish takes a sequence of values"));
    if (!sequence) return nullptr;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i)
      ids.push_back(static_cast<graph::ValueId>(PyLong_AsUnsignedLong(PySequence_Fast_GET_ITEM(sequence.get(), i))));
    if (PyErr_Occurred()) return nullptr;
    return wrap_graph(function_tracer_of(self).finish(std::move(ids)));
  });
}

PyMethodDef traced_methods[] = {
    {"input", traced_input, METH_VARARGS, "input(tensor, name): the fake that the function gets for it."},
    {"integer_input", traced_integer_input, METH_VARARGS, "integer_input(number, name): the symbol for it."},
    {"call", traced_call, METH_VARARGS, "call(fn, args): calls it and records the operators it calls."},
    {"failure", traced_failure, METH_NOARGS, "(kind, message) of what made the trace useless, or None."},
    {"output", traced_output, METH_O, "output(result): the value that a tensor or symbolic number is."},
    {"attributes", traced_attributes, METH_NOARGS, "The tensors from outside, which are the graph's last inputs."},
    {"real_of", traced_real_of, METH_O, "The real tensor of a fake, in the real mode; else None."},
    {"pause", traced_pause, METH_O, "pause(on): whether operators are left out; returns the earlier setting."},
    {"finish", traced_finish, METH_O, "finish(values): the graph that returns these values."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot traced_slots[] = {
    {Py_tp_doc, const_cast<char*>("Records the operators that one call of a function makes.")},
    {Py_tp_new, reinterpret_cast<void*>(traced_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(traced_dealloc)},
    {Py_tp_methods, traced_methods},
    {0, nullptr},
};

PyType_Spec traced_spec = {"stator._C.FunctionTracer", sizeof(FunctionTracerObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, traced_slots};

}  // namespace

bool add_function_tracer_bindings(PyObject* module) {
  auto type = Ref::steal(PyType_FromSpec(&traced_spec));
  return type && PyModule_AddObjectRef(module, "FunctionTracer", type.get()) == 0;
}

}  // namespace stator::bindings
