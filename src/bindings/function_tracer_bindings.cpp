#include "bindings/function_tracer_bindings.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <map>
#include <new>
#include <unordered_map>

#include "bindings/boxed_call.h"
#include "bindings/graph_bindings.h"
#include "bindings/graph_convert.h"
#include "bindings/graph_listing.h"
#include "capture/call/number_nodes.h"
#include "capture/tensors/tensor_object.h"
#include "core/fake/fake_tensor.h"
#include "core/passes/decompositions/table.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/below.h"
#include "core/tracer/function_tracer.h"

namespace stator::bindings {
using namespace capture;
namespace {

using tracer::FunctionTracer;
using tracer::TraceFailure;
using tracer::TraceMode;
using Counts = std::map<std::string, size_t>;  // by operator

/// Functions that compute operators by others, as in `decomposition_table`: Python functions, and those of the native
/// table, which have the attribute `_stator_native`.
class DecompositionTable {
 public:
  /// `running`: a list of the operators whose decompositions run, or None.
  DecompositionTable(const py::dict& table, py::object running) : running_(std::move(running)) {
    for (const auto& [overload, function] : table) {
      if (!py::hasattr(overload, "_schema")) continue;
      const py::object schema = overload.attr("_schema");
      const auto op = c10::Dispatcher::singleton().findSchema(
          {schema.attr("name").cast<std::string>(), schema.attr("overload_name").cast<std::string>()});
      if (!op) continue;
      Row row{nullptr, py::reinterpret_borrow<py::object>(overload), py::reinterpret_borrow<py::object>(function)};
      if (py::hasattr(function, "_stator_native")) {
        row.native = passes::find_decomposition(*op);
        row.python = function.attr("python");
      }
      rows_.emplace(&op->schema(), std::move(row));
    }
  }
  ~DecompositionTable() {  // NOLINT(bugprone-exception-escape): the destructors of Python objects do not throw
    py::gil_scoped_acquire gil;
    rows_.clear();
    running_ = {};
  }
  DecompositionTable(const DecompositionTable&) = delete;

  bool empty() const { return rows_.empty(); }

  /// Counts a decomposition that was used in `native` or `python`.
  bool apply(FunctionTracer& tracer, const c10::OperatorHandle& op, torch::jit::Stack* stack, Counts& native,
             Counts& python) const {
    const auto found = rows_.find(&op.schema());
    if (found == rows_.end()) return false;
    const Row& row = found->second;
    const Running noted(*this, row);
    if (row.native != nullptr && apply_native(tracer, *row.native, op, stack)) {
      ++native[c10::toString(op.operator_name())];
      return true;
    }
    py::gil_scoped_acquire gil;
    if (row.python.is_none() || !call_boxed(row.python.ptr(), op, stack)) return false;
    ++python[c10::toString(op.operator_name())];
    return true;
  }

 private:
  struct Row {
    const passes::Decomposition* native;
    py::object overload, python;
  };

  /// RAII: the operator is in the list of those whose decompositions run.
  class Running {
   public:
    Running(const DecompositionTable& table, const Row& row) : table_(table) {
      if (!table_.running_.is_none()) with_gil([&] { table_.running_.attr("append")(row.overload); });
    }
    ~Running() {  // NOLINT(bugprone-exception-escape): taking the last item of a list does not throw
      if (!table_.running_.is_none()) with_gil([&] { table_.running_.attr("pop")(); });
    }
    Running(const Running&) = delete;

   private:
    template <class Body>
    static void with_gil(const Body& body) {
      py::gil_scoped_acquire gil;
      const py::error_scope raised;
      body();
    }
    const DecompositionTable& table_;
  };

  static bool apply_native(FunctionTracer& tracer, const passes::Decomposition& decomposition,
                           const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto given = torch::jit::last(*stack, op.schema().arguments().size());
    torch::jit::Stack results(given.begin(), given.end());
    if (!tracer.attempt([&] { return decomposition(op, results); })) return false;
    torch::jit::drop(*stack, given.size());
    stack->insert(stack->end(), results.begin(), results.end());
    return true;
  }

  std::unordered_map<const c10::FunctionSchema*, Row> rows_;
  py::object running_;
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

/// What a tracer gets from Python.
struct PythonHost {
  FunctionTracer* tracer = nullptr;
  std::shared_ptr<DecompositionTable> table;
  Counts native, python;            // decompositions that were used
  py::object table_object;          // the dict that `table` was made of
  py::object locate;                // see `location_by`
  py::object foreign = py::none();  // gives the fake for a tensor of another library's fakes, or None
  // See `FunctionTracerHost`; None, or two functions of a tensor, and a mode.
  py::object subclass_mode = py::none();
  py::object subclass_made = py::none();
  py::object subclass_original = py::none();  // gives the number of a value, or None
  py::object outer;                           // the trace in which this one is a sub-graph
};

/// `locate()` returns (file, function, line) for a new location, the number of a known one, or None.
uint32_t location_by(const py::object& locate, graph::Graph& graph) {
  py::gil_scoped_acquire gil;
  const py::object found = locate();
  if (found.is_none()) return 0;
  if (py::isinstance<py::int_>(found)) return found.cast<uint32_t>();
  const auto place = found.cast<py::tuple>();
  graph.locations.push_back(
      {place[0].cast<std::string>(), place[1].cast<std::string>(), place[2].cast<int>(), 0, {}, {}});
  return static_cast<uint32_t>(graph.locations.size() - 1);
}

struct FunctionTracerObject {
  PyObject_HEAD FunctionTracer* tracer;
  PythonHost* host;
};

FunctionTracer& function_tracer_of(PyObject* object) {
  return *reinterpret_cast<FunctionTracerObject*>(object)->tracer;
}

PythonHost& host_of(PyObject* object) { return *reinterpret_cast<FunctionTracerObject*>(object)->host; }

/// Whether the object is a tracer; else a Python error is set.
bool expect_tracer(PyObject* object, PyTypeObject* type) {
  if (PyObject_TypeCheck(object, type)) return true;
  PyErr_Format(PyExc_TypeError, "expected a trace, not %s", Py_TYPE(object)->tp_name);
  return false;
}

void set_table(PythonHost& host, PyObject* table, PyObject* running) {
  host.table_object = py::reinterpret_borrow<py::object>(table);
  host.table = std::make_shared<DecompositionTable>(py::reinterpret_borrow<py::dict>(table),
                                                    py::reinterpret_borrow<py::object>(running));
}

PyObject* traced_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return handle_errors([&]() -> PyObject* {
    const char *name = nullptr, *mode = nullptr;
    int above = 0, allow_real = 0, refuse_reads = 1;
    PyObject *table = nullptr, *locate = nullptr, *outer = Py_None;
    static const char* names[] = {"name",  "mode",   "above", "allow_real", "refuse_reads",
                                  "table", "locate", "outer", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sspppO!O|O:FunctionTracer", const_cast<char**>(names), &name,
                                     &mode, &above, &allow_real, &refuse_reads, &PyDict_Type, &table, &locate,
                                     &outer)) {
      return nullptr;
    }
    if (outer != Py_None && !expect_tracer(outer, type)) return nullptr;
    if (auto reason = tracer::install_function_tracer(); !reason.empty()) {
      return PyErr_Format(PyExc_RuntimeError, "cannot trace: %s", reason.c_str());
    }
    install_number_nodes();
    const std::string_view text = mode;
    tracer::FunctionTracerOptions options{
        text == "real" ? TraceMode::Real : (text == "fake" ? TraceMode::Fake : TraceMode::Symbolic), above != 0,
        allow_real != 0, refuse_reads != 0, outer != Py_None ? &function_tracer_of(outer) : nullptr};
    auto python = std::make_unique<PythonHost>();
    python->locate = py::reinterpret_borrow<py::object>(locate);
    python->outer = py::reinterpret_borrow<py::object>(outer);
    set_table(*python, table, Py_None);
    tracer::FunctionTracerHost host;
    host.number_of = number_of;
    host.wrap_number = wrap_number;
    host.decompose = [python = python.get()](const c10::OperatorHandle& op, torch::jit::Stack* stack) {
      // The function may set another table.
      const auto table = python->table;
      return !table->empty() && table->apply(*python->tracer, op, stack, python->native, python->python);
    };
    host.foreign = [python = python.get()](const at::Tensor& tensor) {
      py::gil_scoped_acquire gil;
      if (python->foreign.is_none()) return at::Tensor();
      const py::object made = python->foreign(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
      return made.is_none() ? at::Tensor() : THPVariable_Unpack(made.ptr());
    };
    host.subclass_mode = [python = python.get()] {
      py::gil_scoped_acquire gil;
      python->subclass_mode.attr("__enter__")();
      return std::shared_ptr<void>(nullptr, [python](void*) {
        py::gil_scoped_acquire gil;
        const py::error_scope raised;
        python->subclass_mode.attr("__exit__")(py::none(), py::none(), py::none());
      });
    };
    host.subclass_made = [python = python.get()](const at::Tensor& tensor) {
      py::gil_scoped_acquire gil;
      if (!python->subclass_made.is_none())
        python->subclass_made(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
    };
    host.subclass_original = [python = python.get()](const at::Tensor& tensor) {
      py::gil_scoped_acquire gil;
      if (python->subclass_original.is_none()) return graph::kNoValue;
      const py::object found = python->subclass_original(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
      return found.is_none() ? graph::kNoValue : found.cast<graph::ValueId>();
    };
    if (locate != Py_None)
      host.locate = [python = python.get()](graph::Graph& graph) { return location_by(python->locate, graph); };
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    auto* made = reinterpret_cast<FunctionTracerObject*>(object);
    made->tracer = new FunctionTracer(name, options, std::move(host));
    python->tracer = made->tracer;
    made->host = python.release();
    return object;
  });
}

void traced_dealloc(PyObject* object) {
  auto* type = Py_TYPE(object);
  delete reinterpret_cast<FunctionTracerObject*>(object)->tracer;
  delete reinterpret_cast<FunctionTracerObject*>(object)->host;
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

c10::SymInt number_from(PyObject* object) {
  if (PyLong_Check(object)) return PyLong_AsLongLong(object);
  const c10::SymNode node = node_of(object);
  TORCH_CHECK_TYPE(node, "expected an integer or a symbolic one of this trace");
  return c10::SymInt(node);
}

std::vector<c10::SymInt> numbers_from(PyObject* objects) {
  std::vector<c10::SymInt> numbers;
  for (const py::handle object : py::reinterpret_borrow<py::sequence>(objects))
    numbers.push_back(number_from(object.ptr()));
  return numbers;
}

/// A symbolic or plain integer, float or truth.
c10::IValue value_from(py::handle object) {
  const c10::SymNode node = node_of(object);
  if (!node) return number_from(object.ptr());
  if (node->is_int()) return c10::SymInt(node);
  if (node->is_bool()) return c10::SymBool(node);
  return c10::SymFloat(node);
}

std::vector<at::Tensor> tensors_from(PyObject* objects) {
  std::vector<at::Tensor> tensors;
  for (const py::handle object : py::reinterpret_borrow<py::sequence>(objects)) {
    TORCH_CHECK_TYPE(is_tensor_object(object.ptr()), "expected a tensor");
    tensors.push_back(tensor_of(object.ptr()));
  }
  return tensors;
}

PyObject* traced_foreign_input(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject *foreign = nullptr, *sizes = nullptr, *strides = nullptr, *offset = nullptr, *base = nullptr;
    const char* name = nullptr;
    int is_attribute = 0;
    if (!PyArg_ParseTuple(args, "OOOOOs|p:foreign_input", &foreign, &sizes, &strides, &offset, &base, &name,
                          &is_attribute) ||
        !expect_tensor(foreign))
      return nullptr;
    return wrap_tensor(function_tracer_of(self).add_input(
        tensor_of(foreign), {numbers_from(sizes), numbers_from(strides), number_from(offset)},
        base == Py_None ? at::Tensor() : tensor_of(base), name, is_attribute != 0));
  });
}

PyObject* traced_set_foreign(PyObject* self, PyObject* function) {
  host_of(self).foreign = py::reinterpret_borrow<py::object>(function);
  Py_RETURN_NONE;
}

PyObject* traced_set_subclasses(PyObject* self, PyObject* args) {
  PyObject *mode = nullptr, *made = nullptr, *original = nullptr;
  if (!PyArg_ParseTuple(args, "OOO:set_subclasses", &mode, &made, &original)) return nullptr;
  host_of(self).subclass_mode = py::reinterpret_borrow<py::object>(mode);
  host_of(self).subclass_made = py::reinterpret_borrow<py::object>(made);
  host_of(self).subclass_original = py::reinterpret_borrow<py::object>(original);
  Py_RETURN_NONE;
}

/// The tensor that a Python number is in a tensor's place.
at::Tensor number_tensor(py::handle number) {
  const at::Scalar scalar = torch::jit::toIValue(number, c10::NumberType::get()).toScalar();
  at::Tensor made = c10::scalar_to_tensor(scalar);
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

PyObject* traced_call_on_subclass(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject *overload = nullptr, *positional = nullptr, *keywords = nullptr;
    if (!PyArg_ParseTuple(args, "OO!O!:call_on_subclass", &overload, &PyTuple_Type, &positional, &PyDict_Type,
                          &keywords))
      return nullptr;
    const py::object schema = py::handle(overload).attr("_schema");
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        schema.attr("name").cast<std::string>().c_str(), schema.attr("overload_name").cast<std::string>().c_str());
    // Where a Python number stands for a tensor, torch passes the number to a mode.
    const auto& declared = op.schema().arguments();
    py::list given(py::reinterpret_borrow<py::tuple>(positional));
    for (size_t i = 0; i < given.size(); ++i)
      if (declared[i].type()->isSubtypeOf(*c10::TensorType::get()) && PyNumber_Check(given[i].ptr()) &&
          !is_tensor_object(given[i].ptr()))
        given[i] = py::reinterpret_steal<py::object>(THPVariable_Wrap(number_tensor(given[i])));
    torch::jit::Stack stack = torch::jit::createStackForSchema(op.schema(), py::args(py::tuple(given)),
                                                               py::reinterpret_borrow<py::kwargs>(keywords), {});
    function_tracer_of(self).call_on_subclass(op, &stack);
    return torch::jit::createPyObjectForStack(std::move(stack)).release().ptr();
  });
}

PyObject* traced_find_copy(PyObject* self, PyObject* tensor) {
  return handle_errors([&]() -> PyObject* {
    return expect_tensor(tensor) ? PyBool_FromLong(function_tracer_of(self).find_copy(tensor_of(tensor))) : nullptr;
  });
}

PyObject* traced_subclass_input(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject *real = nullptr, *made = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "OOs:subclass_input", &real, &made, &name) || !expect_tensor(real) ||
        !expect_tensor(made))
      return nullptr;
    function_tracer_of(self).add_subclass_input(tensor_of(real), tensor_of(made), name);
    Py_RETURN_NONE;
  });
}

PyObject* traced_fake_of(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject* real = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "Os:fake_of", &real, &name) || !expect_tensor(real)) return nullptr;
    return wrap_tensor(function_tracer_of(self).fake_of(tensor_of(real), name));
  });
}

PyObject* traced_forbid(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject* tensor = nullptr;
    const char* message = nullptr;
    if (!PyArg_ParseTuple(args, "Os:forbid", &tensor, &message) || !expect_tensor(tensor)) return nullptr;
    function_tracer_of(self).forbid(tensor_of(tensor), message);
    Py_RETURN_NONE;
  });
}

PyObject* traced_position(PyObject* self, PyObject*) { return PyLong_FromSize_t(function_tracer_of(self).position()); }

PyObject* traced_symbol(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    long long hint = 0;
    const char* source = nullptr;
    if (!PyArg_ParseTuple(args, "Ls:symbol", &hint, &source)) return nullptr;
    return py::cast(function_tracer_of(self).add_symbol(hint, source)).release().ptr();
  });
}

PyObject* traced_record_call(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    long long function = 0;
    PyObject *tensors = nullptr, *numbers = nullptr, *results = nullptr;
    if (!PyArg_ParseTuple(args, "LOOO:record_call", &function, &tensors, &numbers, &results)) return nullptr;
    std::vector<c10::IValue> given;
    for (const py::handle number : py::reinterpret_borrow<py::sequence>(numbers)) given.push_back(value_from(number));
    function_tracer_of(self).record_call(function, tensors_from(tensors), given, tensors_from(results));
    Py_RETURN_NONE;
  });
}

/// (numbers of storages by value, offsets by value, bytes by storage): bytes are an integer, or the text of a number.
PyObject* traced_memories(PyObject* self, PyObject*) {
  return handle_errors([&]() -> PyObject* {
    const tracer::Memories found = function_tracer_of(self).memories();
    const auto integer = [](int64_t number) { return Ref::steal(PyLong_FromLongLong(number)); };
    const Ref storages = list_of(found.storages, integer), offsets = list_of(found.offsets, integer);
    const Ref bytes = list_of(found.bytes, [&](const c10::SymInt& number) {
      const auto expr = shapes::expression_of(number);
      return expr ? text_object(shapes::to_python(expr.get())) : integer(number.expect_int());
    });
    return Py_BuildValue("(OOO)", storages.get(), offsets.get(), bytes.get());
  });
}

PyObject* traced_release(PyObject* self, PyObject*) {
  return handle_errors([&]() -> PyObject* {
    function_tracer_of(self).release();
    Py_RETURN_NONE;
  });
}

PyObject* traced_has(PyObject* self, PyObject* tensor) {
  if (!expect_tensor(tensor)) return nullptr;
  return PyBool_FromLong(function_tracer_of(self).has(tensor_of(tensor)));
}

/// Sets the table and returns the earlier one.
PyObject* traced_set_table(PyObject* self, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject *table = nullptr, *running = Py_None;
    if (!PyArg_ParseTuple(args, "O!|O:set_table", &PyDict_Type, &table, &running)) return nullptr;
    const py::object earlier = host_of(self).table_object;
    set_table(host_of(self), table, running);
    return py::object(earlier).release().ptr();
  });
}

/// How often decompositions were used: ({operator: of the native table}, {operator: of Python}).
PyObject* traced_decompositions(PyObject* self, PyObject*) {
  return handle_errors(
      [&]() -> PyObject* { return py::make_tuple(host_of(self).native, host_of(self).python).release().ptr(); });
}

/// The guards on the symbols: their truths, as Python. Then rows of all symbols, as `Graph.symbol_table` has them.
PyObject* traced_guards(PyObject* self, PyObject*) {
  return handle_errors([&]() -> PyObject* {
    auto& env = function_tracer_of(self).symbols();
    const Ref truths = list_of(env.guards(), [](const auto& guard) { return text_object(to_python(guard.truth)); });
    const Ref symbols = list_of(env.symbols(), [](const auto* symbol) { return symbol_object(symbol->expr); });
    return Py_BuildValue("(OO)", truths.get(), symbols.get());
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
    auto& tracer = function_tracer_of(self);
    size_t index = 0;
    return list_of(tracer.attributes(),
                   [&](const at::Tensor& tensor) {
                     c10::SymNode number = tracer.attribute_number(index++);
                     if (!number) return owned(wrap_tensor(tensor));
                     return owned(py::cast(c10::SymInt(std::move(number))).release().ptr());
                   })
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
    {"foreign_input", traced_foreign_input, METH_VARARGS,
     "foreign_input(tensor, sizes, strides, offset, base, name, is_attribute=False): the fake for a tensor of torch's "
     "fakes."},
    {"set_foreign", traced_set_foreign, METH_O, "set_foreign(function): gives the fake for one of torch's, or None."},
    {"subclass_input", traced_subclass_input, METH_VARARGS,
     "subclass_input(tensor, made, name): the function gets `made`; operators on it are nodes."},
    {"set_subclasses", traced_set_subclasses, METH_VARARGS,
     "set_subclasses(mode, made, original): `mode` calls `call_on_subclass`; `made(tensor)` gets each tensor subclass "
     "that is a result of a node; `original(tensor)` gives the number of the value that autograd copied, or None."},
    {"call_on_subclass", traced_call_on_subclass, METH_VARARGS,
     "call_on_subclass(overload, args, kwargs): below autograd, an operator that takes a tensor subclass."},
    {"find_copy", traced_find_copy, METH_O, "find_copy(tensor): whether the subclass is a value, or a copy of one."},
    {"fake_of", traced_fake_of, METH_VARARGS, "fake_of(tensor, name): a fake of a tensor that is not an input."},
    {"forbid", traced_forbid, METH_VARARGS, "forbid(tensor, message): a use of the tensor is an error."},
    {"position", traced_position, METH_NOARGS, "The number of nodes so far."},
    {"symbol", traced_symbol, METH_VARARGS, "symbol(hint, source): a symbolic size."},
    {"record_call", traced_record_call, METH_VARARGS,
     "record_call(function, tensors, numbers, results): adds a node that Python makes sense of."},
    {"memories", traced_memories, METH_NOARGS,
     "Where values lie: (number of the storage, by value; offset, by value; bytes, by storage)."},
    {"release", traced_release, METH_NOARGS,
     "After the graph was made: tensors of a real trace that the program has kept become real."},
    {"has", traced_has, METH_O, "has(tensor): whether the trace, or one around it, has a value for it."},
    {"set_table", traced_set_table, METH_VARARGS,
     "set_table(dict, running=None): other decompositions; returns the earlier ones. `running`: a list that gets the "
     "operators whose decompositions run."},
    {"decompositions", traced_decompositions, METH_NOARGS,
     "How often decompositions were used: ({operator: native}, {operator: Python})."},
    {"guards", traced_guards, METH_NOARGS, "(truths that the trace relies on, as Python; rows of the symbols)."},
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
