#include "bindings/graph_bindings.h"

#include <structmember.h>

#include <new>

#include "bindings/graph_convert.h"
#include "bindings/graph_listing.h"
#include "bindings/tracer_bindings.h"
#include "capture/tensors/tensor_object.h"
#include "core/backend/backend.h"
#include "core/backend/join_gradients.h"
#include "core/backend/reference/reentrant_checkpoint.h"
#include "core/graph/control_ops.h"
#include "core/graph/text.h"
#include "core/shapes/number_ops.h"

#define STATOR_BEGIN \
  return handle_errors([&]() -> PyObject* { \
    try {
#define STATOR_END                                   \
  }                                                  \
  catch (const PythonError&) {                       \
    return nullptr;                                  \
  }                                                  \
  catch (const graph::TextError& error) {            \
    PyErr_SetString(PyExc_ValueError, error.what()); \
    return nullptr;                                  \
  }                                                  \
  });

namespace stator::bindings {
using namespace capture;
namespace {

struct GraphObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* weakrefs;
  PyObject* symbols;  // see the property; null: None
  std::shared_ptr<graph::Graph> graph;
  std::shared_ptr<const backend::Executable> executable;  // created by the first run
};

PyTypeObject* graph_type = nullptr;
PyObject* value_type = nullptr;

GraphObject* self_of(PyObject* object) { return reinterpret_cast<GraphObject*>(object); }
const graph::Graph& graph_of(PyObject* object) { return *self_of(object)->graph; }

/// Releases the GIL while it exists.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

bool takes_number(const graph::Graph& graph, Py_ssize_t place) {
  const auto index = static_cast<size_t>(place);
  return index < graph.inputs.size() && graph::holds_number(graph.values[graph.inputs[index]].type);
}

/// What a graph gets for a Python number, or for the value at capture of a symbolic one.
at::Tensor number_input(PyObject* number) {
  if (PyFloat_Check(number)) return shapes::number_tensor(PyFloat_AS_DOUBLE(number));
  if (PyBool_Check(number)) return shapes::number_tensor(number == Py_True);
  Ref plain = Ref::borrow(number);
  if (!PyLong_Check(number)) {
    auto module = owned(PyImport_ImportModule("stator.fx_symbols"));
    plain = owned(PyObject_CallMethod(module.get(), "plain_number", "O", number));
  }
  const int64_t value = PyLong_AsLongLong(plain.get());
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return shapes::number_tensor(value);
}

PyObject* graph_vectorcall(PyObject* object, PyObject* const* args, size_t flags, PyObject* keywords) {
  STATOR_BEGIN
  auto* self = self_of(object);
  if (keywords != nullptr && PyTuple_GET_SIZE(keywords) != 0) {
    PyErr_SetString(PyExc_TypeError, "a graph takes no keyword arguments");
    return nullptr;
  }
  auto count = PyVectorcall_NARGS(flags);
  std::vector<at::Tensor> inputs;
  inputs.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_tensor_object(args[i]) && !takes_number(*self->graph, i)) {
      return PyErr_Format(PyExc_TypeError, "a graph takes tensors; argument %zd is %s", i, Py_TYPE(args[i])->tp_name);
    }
    inputs.push_back(is_tensor_object(args[i]) ? tensor_of(args[i]) : number_input(args[i]));
  }
  if (!self->executable) self->executable = backend::compile_reference(self->graph);
  std::vector<at::Tensor> outputs;
  {
    auto executable = self->executable;
    WithoutGil others_run;
    outputs = executable->run(std::move(inputs));
  }
  auto result = owned(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), owned(wrap_tensor(std::move(outputs[i]))).release());
  }
  return result.release();
  STATOR_END
}

PyObject* graph_run(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  return graph_vectorcall(object, args, static_cast<size_t>(count), nullptr);
}

void graph_dealloc(PyObject* object) {
  auto* self = self_of(object);
  auto* type = Py_TYPE(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  Py_XDECREF(self->symbols);
  self->executable.~shared_ptr();
  self->graph.~shared_ptr();
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* graph_text(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return text_object(graph::to_text(graph_of(object))).release();
  STATOR_END
}

PyObject* graph_str(PyObject* object) { return graph_text(object, nullptr); }

/// parts() -> (text, large constant tensors): what `parse` needs to make an equal graph.
PyObject* graph_parts(PyObject* object, PyObject*) {
  STATOR_BEGIN
  std::vector<at::Tensor> tensors;
  auto text = text_object(graph::to_text(graph_of(object), &tensors));
  auto list = owned(PyList_New(0));
  for (auto& tensor : tensors) {
    if (PyList_Append(list.get(), owned(wrap_tensor(tensor)).get()) < 0) return nullptr;
  }
  return PyTuple_Pack(2, text.get(), list.get());
  STATOR_END
}

PyObject* graph_parse(PyObject*, PyObject* args) {
  STATOR_BEGIN
  PyObject *string = nullptr, *given = nullptr;
  if (!PyArg_ParseTuple(args, "U|O:parse", &string, &given)) return nullptr;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(string, &size);
  if (!text) return nullptr;
  std::vector<at::Tensor> tensors;
  if (given != nullptr) {
    auto sequence = owned(PySequence_Fast(given, "parse takes a sequence of tensors"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(sequence.get(), i);
      if (!is_tensor_object(item)) {
        PyErr_SetString(PyExc_TypeError, "parse takes a sequence of tensors");
        return nullptr;
      }
      tensors.push_back(tensor_of(item));
    }
  }
  return wrap_graph(graph::from_text({text, static_cast<size_t>(size)}, tensors));
  STATOR_END
}

PyObject* graph_reduce(PyObject* object, PyObject*) {
  STATOR_BEGIN
  auto parse = owned(PyObject_GetAttrString(reinterpret_cast<PyObject*>(graph_type), "parse"));
  auto parts = owned(graph_parts(object, nullptr));
  return PyTuple_Pack(2, parse.get(), parts.get());
  STATOR_END
}

template <Ref (*list)(const graph::Graph&)>
PyObject* graph_list(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return list(graph_of(object)).release();
  STATOR_END
}

PyObject* graph_nodes(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return list_nodes(graph_of(object), value_type).release();
  STATOR_END
}

PyObject* graph_regions(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return list_regions(graph_of(object), value_type).release();
  STATOR_END
}

/// The definition that `(value, node=...)` names; kNoDefinition where there is none.
graph::DefinitionId named_definition(const graph::Graph& graph, PyObject* args) {
  unsigned int id = 0, node = UINT32_MAX;
  if (!PyArg_ParseTuple(args, "I|I", &id, &node)) throw PythonError();
  if (id >= graph.values.size() || (node != UINT32_MAX && node >= graph.nodes.size())) {
    PyErr_SetString(PyExc_IndexError, "no such value or node");
    throw PythonError();
  }
  return node == UINT32_MAX ? graph.values[id].definition : graph.definition_of(node, id);
}

PyObject* graph_meta(PyObject* object, PyObject* args) {
  STATOR_BEGIN
  const auto definition = named_definition(graph_of(object), args);
  if (definition == graph::kNoDefinition) Py_RETURN_NONE;
  return meta_object(graph_of(object).definitions.meta(definition)).release();
  STATOR_END
}

PyObject* graph_has_meta(PyObject* object, PyObject* args) {
  STATOR_BEGIN
  return PyBool_FromLong(named_definition(graph_of(object), args) != graph::kNoDefinition);
  STATOR_END
}

PyObject* graph_number(PyObject* object, PyObject* value) {
  STATOR_BEGIN
  const size_t id = PyLong_AsSize_t(value);
  if (PyErr_Occurred()) return nullptr;
  const shapes::Expr& number = graph_of(object).values.at(id).number;
  if (!number) Py_RETURN_NONE;
  return number_object(number).release();
  STATOR_END
}

PyObject* graph_symbols(PyObject* object, void*) {
  PyObject* symbols = self_of(object)->symbols;
  return Ref::borrow(symbols ? symbols : Py_None).release();
}

int set_graph_symbols(PyObject* object, PyObject* symbols, void*) {
  Py_XINCREF(symbols);
  Py_XSETREF(self_of(object)->symbols, symbols);
  return 0;
}

PyObject* ids_object(const std::vector<graph::ValueId>& ids) {
  STATOR_BEGIN
  return list_values(ids, value_type).release();
  STATOR_END
}

PyObject* graph_inputs(PyObject* object, void*) { return ids_object(graph_of(object).inputs); }
PyObject* graph_outputs(PyObject* object, void*) { return ids_object(graph_of(object).outputs); }
PyObject* graph_num_nodes(PyObject* object, void*) { return PyLong_FromSize_t(graph_of(object).nodes.size()); }
PyObject* graph_name(PyObject* object, void*) { return PyUnicode_FromString(graph_of(object).name.c_str()); }

/// (node, operator, [(file, function, line)]) or None.
PyObject* graph_failed_op(PyObject* object, PyObject*) {
  STATOR_BEGIN
  auto failed = backend::failed_op(graph_of(object));
  if (!failed) Py_RETURN_NONE;
  auto lines = list_of(failed->lines, [](const graph::Location& at) {
    return owned(Py_BuildValue("(ssi)", at.file.c_str(), at.function.c_str(), at.line));
  });
  return Py_BuildValue("(IsO)", failed->node, c10::toString(failed->op).c_str(), lines.get());
  STATOR_END
}

PyObject* graph_aten(PyObject* object, void*) {
  if (auto below = graph_of(object).below) return wrap_graph(std::move(below));
  Py_RETURN_NONE;
}

PyMethodDef graph_methods[] = {
    {"text", graph_text, METH_NOARGS, "The text form."},
    {"parts", graph_parts, METH_NOARGS, "The text form and the tensors that are too big for it."},
    {"parse", graph_parse, METH_VARARGS | METH_STATIC, "parse(text, tensors=()): the graph of a text form."},
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(graph_run)), METH_FASTCALL,
     "Runs the graph on tensors with the reference executor; a tuple."},
    {"nodes", graph_nodes, METH_NOARGS, "[(name, overload, args, kwargs, results, state, location)]"},
    {"regions", graph_regions, METH_NOARGS,
     "[(first node, number of nodes, sub-graph, operands, [(result, node)])] of the calls that share a sub-graph."},
    {"states", graph_list<list_states>, METH_NOARGS, "[(grad, inference, [(device type, dtype)], cast cache, region)]"},
    {"locations", graph_list<list_locations>, METH_NOARGS,
     "[(file, function, line, caller, module path, module class)]; the first is unknown."},
    {"names", graph_list<list_names>, METH_NOARGS, "A distinct name for each value, by index."},
    {"meta", graph_meta, METH_VARARGS,
     "meta(value, node=...): (dtype, sizes, strides, device, requires_grad) of its first definition, or of the one "
     "that "
     "the node makes; symbolic sizes and strides as text. None where there is none."},
    {"number", graph_number, METH_O,
     "What a value that is a number is in terms of the graph's symbols, as text; or None."},
    {"symbol_table", graph_list<list_symbols>, METH_NOARGS,
     "[(name, type, value at capture or None, least or None, greatest or None)] of the symbols in its metadata."},
    {"size_checks", graph_list<list_size_checks>, METH_NOARGS,
     "What operators of its capture check of sizes that depend on data, as text over the symbols."},
    {"has_meta", graph_has_meta, METH_VARARGS, "Whether `meta`, called with the same arguments, gives something."},
    {"types", graph_list<list_types>, METH_NOARGS, "The type of each value: tensor, int, float, bool, list or object."},
    {"failed_op", graph_failed_op, METH_NOARGS,
     "What raised in the latest run on this thread: (node, operator, [(file, function, line)], outermost first)."},
    {"__reduce__", graph_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef graph_properties[] = {
    {"inputs", graph_inputs, nullptr, "Values, in order.", nullptr},
    {"outputs", graph_outputs, nullptr, "Values, in order.", nullptr},
    {"symbols", graph_symbols, set_graph_symbols,
     "The stator.fx_symbols.GraphSymbols that makes torch's symbols, or None.", nullptr},
    {"num_nodes", graph_num_nodes, nullptr, nullptr, nullptr},
    {"name", graph_name, nullptr, nullptr, nullptr},
    {"aten", graph_aten, nullptr, "The same trace below autograd, or None where it was not recorded.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef graph_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GraphObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(GraphObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot graph_slots[] = {
    {Py_tp_doc, const_cast<char*>("A captured graph; calling it runs it on tensors. Made by capture or `parse`.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(graph_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_str, reinterpret_cast<void*>(graph_str)},
    {Py_tp_methods, graph_methods},
    {Py_tp_getset, graph_properties},
    {Py_tp_members, graph_members},
    {0, nullptr},
};

PyType_Spec graph_spec = {
    "stator._C.Graph", sizeof(GraphObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    graph_slots};

}  // namespace

PyObject* wrap_graph(std::shared_ptr<graph::Graph> graph) {
  auto* self = PyObject_New(GraphObject, graph_type);
  if (self == nullptr) return nullptr;
  self->vectorcall = graph_vectorcall;
  self->weakrefs = nullptr;
  self->symbols = nullptr;
  new (&self->graph) std::shared_ptr<graph::Graph>(std::move(graph));
  new (&self->executable) std::shared_ptr<const backend::Executable>();
  return reinterpret_cast<PyObject*>(self);
}

std::shared_ptr<graph::Graph> unwrap_graph(PyObject* object) {
  return Py_TYPE(object) == graph_type ? self_of(object)->graph : nullptr;
}

namespace {

/// Autograd nodes made in C++ get the Python classes that torch's own nodes of the same operators have.
bool name_autograd_nodes() {
  static PyTypeObject cond, scan, checkpoint;
  return register_autograd_node(typeid(backend::CondBackward), cond,
                                "torch.autograd.function.CondAutogradOpBackward") &&
         register_autograd_node(typeid(backend::ScanBackward), scan,
                                "torch.autograd.function.ScanAutogradOpBackward") &&
         register_autograd_node(typeid(backend::CheckpointBackward), checkpoint,
                                "torch.autograd.function.CheckpointFunctionBackward");
}

}  // namespace

bool add_graph_bindings(PyObject* module) {
  graph::install_control_ops();
  if (!name_autograd_nodes()) return false;
  graph_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&graph_spec));
  if (graph_type == nullptr) return false;
  value_type = PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(O){s:s,s:()}", "Value", &PyLong_Type,
                                     "__module__", "stator._C", "__slots__");
  if (value_type == nullptr) return false;
  if (PyModule_AddObjectRef(module, "Graph", reinterpret_cast<PyObject*>(graph_type)) < 0) return false;
  if (PyModule_AddObjectRef(module, "Value", value_type) < 0) return false;
  return add_tracer_bindings(module);
}

}  // namespace stator::bindings
