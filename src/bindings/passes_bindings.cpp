#include "bindings/passes_bindings.h"

#include "bindings/graph_bindings.h"
#include "bindings/graph_convert.h"
#include "capture/tensors/tensor_object.h"
#include "core/passes/decompose.h"
#include "core/passes/functionalize.h"
#include "core/passes/replay.h"
#include "core/passes/simplify.h"

namespace stator::bindings {
using namespace capture;
namespace {

template <class Body>
PyObject* guarded(const Body& body) {
  return handle_errors([&]() -> PyObject* {
    try {
      return body();
    } catch (const PythonError&) {
      return nullptr;
    }
  });
}

std::shared_ptr<graph::Graph> given_graph(PyObject* object) {
  auto graph = unwrap_graph(object);
  if (!graph) {
    PyErr_Format(PyExc_TypeError, "expected a graph, not %s", Py_TYPE(object)->tp_name);
    throw PythonError();
  }
  return graph;
}

/// The list below autograd, with what the list above knows of the memory of inputs.
std::shared_ptr<graph::Graph> below_of(const graph::Graph& above) {
  TORCH_CHECK_VALUE(above.below, "the graph has no list below autograd");
  auto below = std::make_shared<graph::Graph>(*above.below);
  for (size_t i = 0; i < below->inputs.size(); ++i) {
    at::Tensor& fake = below->values[below->inputs[i]].fake;
    if (!fake.defined()) fake = above.values[above.inputs[i]].fake;
  }
  return below;
}

/// pass(graph) -> (graph, number of nodes removed)
template <size_t (*pass)(graph::Graph&)>
PyObject* py_simplify(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    auto copy = std::make_shared<graph::Graph>(*given_graph(object));
    const size_t removed = pass(*copy);
    return Py_BuildValue("(Nn)", owned(wrap_graph(std::move(copy))).release(), static_cast<Py_ssize_t>(removed));
  });
}

PyObject* py_fold_constants(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* object = nullptr;
    long long most = passes::kMaxFoldedElements;
    if (!PyArg_ParseTuple(args, "O|L:fold_constants", &object, &most)) return nullptr;
    auto copy = std::make_shared<graph::Graph>(*given_graph(object));
    const size_t removed = passes::fold_constants(*copy, most);
    return Py_BuildValue("(Nn)", owned(wrap_graph(std::move(copy))).release(), static_cast<Py_ssize_t>(removed));
  });
}

PyObject* py_find_difference(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *a = nullptr, *b = nullptr;
    if (!PyArg_ParseTuple(args, "OO:find_difference", &a, &b)) return nullptr;
    return text_object(passes::find_difference(*given_graph(a), *given_graph(b))).release();
  });
}

PyObject* py_retrace(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* { return wrap_graph(passes::retrace(*given_graph(object))); });
}

PyObject* py_lower(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* { return wrap_graph(passes::lower(*given_graph(object))); });
}

const char* kind_name(passes::Functionalized::OutputFact::Kind kind) {
  constexpr const char* kNames[] = {"own", "input", "view_of_input", "same_as_output", "shares_with_output"};
  return kNames[static_cast<size_t>(kind)];
}

PyObject* py_functionalize(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* object = nullptr;
    int write_back = 1, aten = 0;
    if (!PyArg_ParseTuple(args, "O|pp:functionalize", &object, &write_back, &aten)) return nullptr;
    auto graph = given_graph(object);
    if (aten) graph = below_of(*graph);
    auto made = passes::functionalize(*graph, write_back ? passes::WriteBack::AtEnd : passes::WriteBack::AsOutputs);
    auto mutations = list_of(made.mutations, [](const auto& row) {
      return owned(Py_BuildValue("(IIOO)", row.input, row.updated, row.data ? Py_True : Py_False,
                                 row.metadata ? Py_True : Py_False));
    });
    auto outputs = list_of(made.outputs,
                           [](const auto& row) { return owned(Py_BuildValue("(sI)", kind_name(row.kind), row.of)); });
    auto on_copies = list_of(made.on_copies, [](const std::string& name) { return text_object(name); });
    auto wrapped = owned(wrap_graph(std::move(made.graph)));
    return PyTuple_Pack(4, wrapped.get(), mutations.get(), outputs.get(), on_copies.get());
  });
}

/// decompose(graph, names or None, aten) -> (graph, {operator: nodes replaced}, {operator: nodes left, without native
/// decomposition})
PyObject* py_decompose(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *object = nullptr, *names = Py_None;
    int aten = 0;
    if (!PyArg_ParseTuple(args, "O|Op:decompose", &object, &names, &aten)) return nullptr;
    passes::DecomposeOptions options;
    if (names != Py_None) {
      options.names.emplace();
      auto sequence = owned(PySequence_Fast(names, "decompose takes a sequence of names"));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
        const char* name = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(sequence.get(), i));
        if (name == nullptr) return nullptr;
        options.names->insert(name);
      }
    }
    auto graph = given_graph(object);
    if (aten) graph = below_of(*graph);
    auto made = passes::decompose(*graph, options);
    auto counts = [](const std::map<std::string, size_t>& rows) {
      auto dict = owned(PyDict_New());
      for (const auto& [name, count] : rows)
        if (PyDict_SetItem(dict.get(), text_object(name).get(), owned(PyLong_FromSize_t(count)).get()) < 0)
          throw PythonError();
      return dict;
    };
    auto replaced = counts(made.replaced), left = counts(made.left);
    auto wrapped = owned(wrap_graph(std::move(made.graph)));
    return PyTuple_Pack(3, wrapped.get(), replaced.get(), left.get());
  });
}

PyObject* py_native_decompositions(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    return list_of(passes::decomposition_names(), [](const std::string& name) { return text_object(name); }).release();
  });
}

PyMethodDef pass_functions[] = {
    {"eliminate_dead_code", py_simplify<passes::eliminate_dead_code>, METH_O, nullptr},
    {"merge_common_subexpressions", py_simplify<passes::merge_common_subexpressions>, METH_O, nullptr},
    {"fold_constants", py_fold_constants, METH_VARARGS, nullptr},
    {"find_difference", py_find_difference, METH_VARARGS, nullptr},
    {"retrace", py_retrace, METH_O, nullptr},
    {"lower", py_lower, METH_O, nullptr},
    {"functionalize", py_functionalize, METH_VARARGS, nullptr},
    {"decompose", py_decompose, METH_VARARGS, nullptr},
    {"native_decompositions", py_native_decompositions, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_passes_bindings(PyObject* module) {
  auto holder = Ref::steal(PyModule_New("stator._C._passes"));
  return holder && PyModule_AddFunctions(holder.get(), pass_functions) == 0 &&
         PyModule_AddObjectRef(module, "_passes", holder.get()) == 0;
}

}  // namespace stator::bindings
