#include "capture/call/host_hooks.h"

#include "capture/call/gil.h"
#include "capture/call/python_node.h"
#include "capture/pycompat/ref.h"
#include "capture/tensors/tensor_object.h"
#include "core/backend/host.h"

namespace stator::capture {
namespace {

using Tensors = std::vector<at::Tensor>;
using Part = std::shared_ptr<const backend::Executable>;

Ref tuple_of(const Tensors& tensors) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  if (!tuple) throw_python_error();
  for (size_t i = 0; i < tensors.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), wrap_tensor(tensors[i]));
  return tuple;
}

Tensors tensors_of(PyObject* tuple) {
  TORCH_CHECK_TYPE(PyTuple_Check(tuple), "a checkpointed part must give a tuple of tensors");
  Tensors tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    TORCH_CHECK_TYPE(is_tensor_object(item), "a checkpointed part must take and give tensors");
    tensors.push_back(tensor_of(item));
  }
  return tensors;
}

/// Runs the part on a tuple of tensors; `self` is the capsule that owns it.
PyObject* call_part(PyObject* self, PyObject* args) {
  return handle_errors([&] {
    const Part part = *static_cast<const Part*>(PyCapsule_GetPointer(self, nullptr));
    Tensors inputs = tensors_of(args), outputs;
    {
      WithoutGil others_run;
      outputs = part->run(std::move(inputs));
    }
    return tuple_of(outputs).release();
  });
}

PyMethodDef part_method = {"checkpointed_part", call_part, METH_VARARGS, nullptr};

Ref callable_of(const Part& part) {
  auto drop = [](PyObject* capsule) { delete static_cast<Part*>(PyCapsule_GetPointer(capsule, nullptr)); };
  Ref capsule = Ref::steal(PyCapsule_New(new Part(part), nullptr, drop));
  return Ref::steal(PyCFunction_New(&part_method, capsule.get()));
}

template <class T>
void set_option(const Ref& options, const char* name, const std::optional<T>& value) {
  if (!value) return;
  Ref object;
  if constexpr (std::is_same_v<T, bool>)
    object = Ref::borrow(*value ? Py_True : Py_False);
  else
    object = Ref::steal(PyUnicode_FromStringAndSize(value->data(), static_cast<Py_ssize_t>(value->size())));
  if (!object || PyDict_SetItemString(options.get(), name, object.get()) < 0) throw_python_error();
}

Tensors run_checkpoint(const Part& part, Tensors arguments, Tensors operands,
                       const backend::CheckpointOptions& options) {
  WithGil gil;
  Ref module = Ref::steal(PyImport_ImportModule("stator.functions"));
  Ref run = module ? Ref::steal(PyObject_GetAttrString(module.get(), "run_checkpoint")) : Ref();
  Ref given = Ref::steal(PyDict_New()), call = callable_of(part);
  if (!run || !given || !call) throw_python_error();
  set_option(given, "preserve_rng_state", options.preserve_rng_state);
  set_option(given, "early_stop", options.early_stop);
  set_option(given, "determinism_check", options.determinism_check);
  Ref argument_tuple = tuple_of(arguments), operand_tuple = tuple_of(operands);
  arguments.clear();
  operands.clear();
  Ref made = Ref::steal(PyObject_CallFunctionObjArgs(run.get(), call.get(), argument_tuple.get(), operand_tuple.get(),
                                                     given.get(), nullptr));
  if (!made) throw_python_error();
  return tensors_of(made.get());
}

void handle_signals() {
  WithGil gil;
  if (PyErr_CheckSignals() < 0) throw_python_error();
}

}  // namespace

void install_host_hooks() {
  backend::set_checkpoint_runner(run_checkpoint);
  backend::set_interrupt_check(handle_signals);
}

}  // namespace stator::capture
