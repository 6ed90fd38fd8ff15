#include "bindings/tracer_bindings.h"

#include <new>
#include <optional>

#include "bindings/graph_bindings.h"
#include "bindings/graph_convert.h"
#include "capture/tensors/tensor_object.h"
#include "core/fake/fake_tensor.h"
#include "core/ops/operator_table.h"
#include "core/shapes/number_ops.h"
#include "core/tracer/tracer.h"

namespace stator::bindings {
using namespace capture;
namespace {

struct TracerObject {
  PyObject_HEAD std::optional<tracer::Tracer> tracer;  // empty once finished
};

TracerObject* tracer_object(PyObject* object) { return reinterpret_cast<TracerObject*>(object); }

tracer::Tracer* tracer_of(PyObject* object) {
  auto& tracer = tracer_object(object)->tracer;
  if (tracer) return &*tracer;
  PyErr_SetString(PyExc_RuntimeError, "this tracer has finished");
  return nullptr;
}

bool check_tensor(PyObject* object) {
  if (is_tensor_object(object)) return true;
  PyErr_Format(PyExc_TypeError, "expected a tensor, not %s", Py_TYPE(object)->tp_name);
  return false;
}

PyObject* tracer_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return handle_errors([&]() -> PyObject* {
    const char* name = "graph";
    int below = 0;
    static const char* names[] = {"name", "aten", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s$p:Tracer", const_cast<char**>(names), &name, &below)) {
      return nullptr;
    }
    if (auto reason = fake::install() + tracer::install(); !reason.empty()) {
      return PyErr_Format(PyExc_RuntimeError, "cannot trace: %s", reason.c_str());
    }
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    new (&tracer_object(object)->tracer) std::optional<tracer::Tracer>(std::in_place, name);
    if (below) tracer_object(object)->tracer->record_below();
    return object;
  });
}

void tracer_dealloc(PyObject* object) {
  auto* type = Py_TYPE(object);
  tracer_object(object)->tracer.~optional();
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* tracer_input(PyObject* object, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject* real = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "Os:input", &real, &name) || !check_tensor(real)) return nullptr;
    auto* tracer = tracer_of(object);
    return tracer == nullptr ? nullptr : wrap_tensor(tracer->add_input(tensor_of(real), name));
  });
}

PyObject* tracer_constant(PyObject* object, PyObject* data) {
  return handle_errors([&]() -> PyObject* {
    auto* tracer = tracer_of(object);
    if (tracer == nullptr || !check_tensor(data)) return nullptr;
    return wrap_tensor(tracer->add_constant(tensor_of(data)));
  });
}

PyObject* tracer_call(PyObject* object, PyObject* args, PyObject* keywords) {
  return handle_errors([&]() -> PyObject* {
    auto* tracer = tracer_of(object);
    if (tracer == nullptr) return nullptr;
    if (PyTuple_GET_SIZE(args) == 0) {
      PyErr_SetString(PyExc_TypeError, "call takes a function and its arguments");
      return nullptr;
    }
    auto rest = Ref::steal(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
    if (!rest) return nullptr;
    Ref result;
    {
      tracer::TraceScope scope(*tracer);
      result = Ref::steal(PyObject_Call(PyTuple_GET_ITEM(args, 0), rest.get(), keywords));
    }
    if (fake::is_poisoned()) {
      PyErr_Clear();
      return PyErr_Format(PyExc_RuntimeError, "cannot be traced: %s", fake::take_poison().c_str());
    }
    return result.release();
  });
}

PyObject* tracer_location(PyObject* object, PyObject* args) {
  const char *file = nullptr, *function = nullptr;
  int line = 0;
  if (!PyArg_ParseTuple(args, "ssi:location", &file, &function, &line)) return nullptr;
  auto* tracer = tracer_of(object);
  if (tracer == nullptr) return nullptr;
  tracer->set_location(tracer->graph().add_location({file, function, line, 0}));
  Py_RETURN_NONE;
}

PyObject* tracer_autocast_ended(PyObject* object, PyObject*) {
  auto* tracer = tracer_of(object);
  if (tracer == nullptr) return nullptr;
  tracer->autocast_ended();
  Py_RETURN_NONE;
}

PyObject* tracer_knows(PyObject* object, PyObject* tensor) {
  auto* tracer = tracer_of(object);
  if (tracer == nullptr || !check_tensor(tensor)) return nullptr;
  return PyBool_FromLong(tracer->value_of(tensor_of(tensor)) != graph::kNoValue);
}

PyObject* tracer_finish(PyObject* object, PyObject* outputs) {
  return handle_errors([&]() -> PyObject* {
    auto* tracer = tracer_of(object);
    if (tracer == nullptr) return nullptr;
    auto sequence = Ref::steal(PySequence_Fast(outputs, "finish takes a sequence of tensors"));
    if (!sequence) return nullptr;
    std::vector<at::Tensor> tensors;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(sequence.get(), i);
      if (!check_tensor(item)) return nullptr;
      tensors.push_back(tensor_of(item));
    }
    auto graph = tracer->finish(tensors);
    tracer_object(object)->tracer.reset();
    return wrap_graph(std::move(graph));
  });
}

PyMethodDef tracer_methods[] = {
    {"input", tracer_input, METH_VARARGS, "input(tensor, name): a fake of it, the next input of the graph."},
    {"constant", tracer_constant, METH_O, "constant(tensor): a fake; each run gets a fresh copy of the data."},
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tracer_call)), METH_VARARGS | METH_KEYWORDS,
     "call(fn, *args, **kwargs): calls it and records the operators it calls."},
    {"location", tracer_location, METH_VARARGS, "location(file, function, line) of what is recorded next."},
    {"autocast_ended", tracer_autocast_ended, METH_NOARGS, "To be called after each end of an autocast block."},
    {"knows", tracer_knows, METH_O, "Whether the tensor is a value of the graph."},
    {"finish", tracer_finish, METH_O, "finish(outputs): the graph; the tracer is of no use afterwards."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot tracer_slots[] = {
    {Py_tp_doc, const_cast<char*>("Records operator calls on fake tensors into a graph.")},
    {Py_tp_new, reinterpret_cast<void*>(tracer_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(tracer_dealloc)},
    {Py_tp_methods, tracer_methods},
    {0, nullptr},
};

PyType_Spec tracer_spec = {"stator._C.Tracer", sizeof(TracerObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           tracer_slots};

PyObject* number_tensor(PyObject*, PyObject* number) {
  return handle_errors([&]() -> PyObject* {
    if (PyFloat_Check(number)) return wrap_tensor(shapes::number_tensor(PyFloat_AS_DOUBLE(number)));
    if (PyBool_Check(number)) return wrap_tensor(shapes::number_tensor(number == Py_True));
    int64_t integer = PyLong_AsLongLong(number);
    if (integer == -1 && PyErr_Occurred()) return nullptr;
    return wrap_tensor(shapes::number_tensor(integer));
  });
}

/// The trait `TakesNumbers` of the operator table; false for an unknown operator.
PyObject* takes_numbers(PyObject*, PyObject* args) {
  const char *name = nullptr, *overload = nullptr;
  if (!PyArg_ParseTuple(args, "ss", &name, &overload)) return nullptr;
  return handle_errors([&]() -> PyObject* {
    const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
    return PyBool_FromLong(op && ops::has_trait(*op, ops::TakesNumbers));
  });
}

PyMethodDef functions[] = {
    {"takes_numbers", takes_numbers, METH_VARARGS,
     "takes_numbers(name, overload): whether a number may stand where the operator takes a tensor."},
    {"number_tensor", number_tensor, METH_O, "The tensor that stands for a number in a graph."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_tracer_bindings(PyObject* module) {
  auto type = Ref::steal(PyType_FromSpec(&tracer_spec));
  return type && PyModule_AddObjectRef(module, "Tracer", type.get()) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace stator::bindings
