#include "bindings/graph_bindings.h"

#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <new>

#include "bindings/graph_convert.h"
#include "bindings/tracer_bindings.h"
#include "core/backend/backend.h"
#include "core/graph/defaults.h"
#include "core/graph/names.h"
#include "core/graph/text.h"

#define STATOR_BEGIN HANDLE_TH_ERRORS try {
#define STATOR_END                                   \
  }                                                  \
  catch (const PythonError&) {                       \
    return nullptr;                                  \
  }                                                  \
  catch (const graph::TextError& error) {            \
    PyErr_SetString(PyExc_ValueError, error.what()); \
    return nullptr;                                  \
  }                                                  \
  END_HANDLE_TH_ERRORS

namespace stator::bindings {
namespace {

struct GraphObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* weakrefs;
  std::shared_ptr<graph::Graph> graph;
  std::shared_ptr<const backend::Executable> executable;  // made by the first run
};

PyTypeObject* graph_type = nullptr;
PyObject* value_type = nullptr;

GraphObject* self_of(PyObject* object) { return reinterpret_cast<GraphObject*>(object); }
const graph::Graph& graph_of(PyObject* object) { return *self_of(object)->graph; }

/// Lets other threads run for as long as it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

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
    if (!THPVariable_Check(args[i])) {
      return PyErr_Format(PyExc_TypeError, "a graph takes tensors; argument %zd is %s", i, Py_TYPE(args[i])->tp_name);
    }
    inputs.push_back(THPVariable_Unpack(args[i]));
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
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i),
                     owned(THPVariable_Wrap(std::move(outputs[i]))).release());
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

/// parts() -> (text, big tensors): what `parse` needs to make the same graph again.
PyObject* graph_parts(PyObject* object, PyObject*) {
  STATOR_BEGIN
  std::vector<at::Tensor> tensors;
  auto text = text_object(graph::to_text(graph_of(object), &tensors));
  auto list = owned(PyList_New(0));
  for (auto& tensor : tensors) {
    if (PyList_Append(list.get(), owned(THPVariable_Wrap(tensor)).get()) < 0) return nullptr;
  }
  return PyTuple_Pack(2, text.get(), list.get());
  STATOR_END
}

PyObject* graph_parse(PyObject*, PyObject* args) {
  STATOR_BEGIN
  const char* text = nullptr;
  Py_ssize_t size = 0;
  PyObject* given = nullptr;
  if (!PyArg_ParseTuple(args, "s#|O:parse", &text, &size, &given)) return nullptr;
  std::vector<at::Tensor> tensors;
  if (given != nullptr) {
    auto sequence = owned(PySequence_Fast(given, "parse takes a sequence of tensors"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(sequence.get(), i);
      if (!THPVariable_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "parse takes a sequence of tensors");
        return nullptr;
      }
      tensors.push_back(THPVariable_Unpack(item));
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

Ref result_object(const graph::Result& result) {
  if (!result.is_list) return value_object(result.values[0], value_type);
  auto list = owned(PyList_New(0));
  for (auto id : result.values) {
    if (PyList_Append(list.get(), value_object(id, value_type).get()) < 0) throw PythonError();
  }
  return list;
}

Ref node_object(const graph::Node& node) {
  const auto& declared = node.op.schema().arguments();
  auto needed = graph::needed_arguments(node);
  auto object_of = [&](size_t i) { return argument_object(node.args[i], *declared[i].real_type(), value_type); };
  auto args = owned(PyTuple_New(static_cast<Py_ssize_t>(needed.positional)));
  for (size_t i = 0; i < needed.positional; ++i) {
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), object_of(i).release());
  }
  auto keywords = owned(PyDict_New());
  for (size_t i : needed.keywords) {
    if (PyDict_SetItemString(keywords.get(), declared[i].name().c_str(), object_of(i).get()) < 0) throw PythonError();
  }
  auto results = owned(PyTuple_New(static_cast<Py_ssize_t>(node.results.size())));
  for (size_t i = 0; i < node.results.size(); ++i) {
    PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i), result_object(node.results[i]).release());
  }
  const auto& name = node.op.operator_name();
  return owned(Py_BuildValue("(ssOOOII)", name.name.c_str(), name.overload_name.c_str(), args.get(), keywords.get(),
                             results.get(), node.state, node.location));
}

template <class Items, class Each>
PyObject* list_of(const Items& items, const Each& each) {
  auto list = owned(PyList_New(0));
  for (const auto& item : items) {
    if (PyList_Append(list.get(), each(item).get()) < 0) throw PythonError();
  }
  return list.release();
}

PyObject* graph_nodes(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return list_of(graph_of(object).nodes, node_object);
  STATOR_END
}

PyObject* graph_states(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return list_of(graph_of(object).states, [](const graph::ExecState& state) {
    auto devices = Ref::steal(list_of(state.autocast, [](const auto& entry) {
      auto dtype = dtype_object(entry.second);
      return owned(Py_BuildValue("(sO)", c10::DeviceTypeName(entry.first, true).c_str(), dtype.get()));
    }));
    return owned(Py_BuildValue("(OOOOI)", state.grad_mode ? Py_True : Py_False,
                               state.inference_mode ? Py_True : Py_False, devices.get(),
                               state.autocast_cache ? Py_True : Py_False, state.autocast_region));
  });
  STATOR_END
}

PyObject* graph_locations(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return list_of(graph_of(object).locations, [](const graph::Location& at) {
    return owned(Py_BuildValue("(ssiI)", at.file.c_str(), at.function.c_str(), at.line, at.caller));
  });
  STATOR_END
}

PyObject* graph_names(PyObject* object, PyObject*) {
  STATOR_BEGIN
  return list_of(graph::value_names(graph_of(object)), [](const std::string& name) { return text_object(name); });
  STATOR_END
}

PyObject* graph_meta(PyObject* object, PyObject* value) {
  STATOR_BEGIN
  auto id = PyLong_AsUnsignedLong(value);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (id >= graph_of(object).values.size()) return PyErr_Format(PyExc_IndexError, "no value %lu", id);
  return meta_object(graph_of(object).meta(static_cast<graph::ValueId>(id)).get()).release();
  STATOR_END
}

PyObject* ids_object(const std::vector<graph::ValueId>& ids) {
  STATOR_BEGIN
  return list_of(ids, [](graph::ValueId id) { return value_object(id, value_type); });
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
  auto lines = Ref::steal(list_of(failed->lines, [](const graph::Location& at) {
    return owned(Py_BuildValue("(ssi)", at.file.c_str(), at.function.c_str(), at.line));
  }));
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
    {"states", graph_states, METH_NOARGS, "[(grad, inference, [(device type, dtype)], cast cache, region)]"},
    {"locations", graph_locations, METH_NOARGS, "[(file, function, line, caller)]; the first is unknown."},
    {"names", graph_names, METH_NOARGS, "A distinct name for each value, by index."},
    {"meta", graph_meta, METH_O, "meta(value): (dtype, sizes, strides, device, requires_grad) or None."},
    {"failed_op", graph_failed_op, METH_NOARGS,
     "What raised in the latest run on this thread: (node, operator, [(file, function, line)], outermost first)."},
    {"__reduce__", graph_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef graph_properties[] = {
    {"inputs", graph_inputs, nullptr, "Values, in order.", nullptr},
    {"outputs", graph_outputs, nullptr, "Values, in order.", nullptr},
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
  new (&self->graph) std::shared_ptr<graph::Graph>(std::move(graph));
  new (&self->executable) std::shared_ptr<const backend::Executable>();
  return reinterpret_cast<PyObject*>(self);
}

std::shared_ptr<graph::Graph> unwrap_graph(PyObject* object) {
  return Py_TYPE(object) == graph_type ? self_of(object)->graph : nullptr;
}

bool add_graph_bindings(PyObject* module) {
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
