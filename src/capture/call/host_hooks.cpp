#include "capture/call/host_hooks.h"

#include <ATen/SavedTensorHooks.h>

#include "capture/call/gil.h"
#include "capture/call/python_node.h"
#include "capture/pycompat/ref.h"
#include "capture/tensors/tensor_object.h"
#include "core/backend/host.h"

/// Torch calls hooks of saved tensors as Python objects. These are functions in C: no Python code runs.
namespace stator::capture {
namespace {

using Hooks = std::shared_ptr<backend::SavedTensorHooks>;
using Stored = std::shared_ptr<void>;

/// A capsule that owns a copy of the pointer.
template <class T>
Ref capsule_of(const T& pointer) {
  auto drop = [](PyObject* capsule) { delete static_cast<T*>(PyCapsule_GetPointer(capsule, nullptr)); };
  Ref capsule = Ref::steal(PyCapsule_New(new T(pointer), nullptr, drop));
  if (!capsule) throw_python_error();
  return capsule;
}
template <class T>
T held_by(PyObject* capsule) {
  auto* pointer = static_cast<T*>(PyCapsule_GetPointer(capsule, nullptr));
  if (!pointer) throw_python_error();
  return *pointer;
}

Ref checkpoint_module_attribute(const char* name) {
  Ref module = Ref::steal(PyImport_ImportModule("torch.utils.checkpoint"));
  return module ? Ref::steal(PyObject_GetAttrString(module.get(), name)) : Ref();
}

void raise_stop() {
  if (Ref type = checkpoint_module_attribute("_StopRecomputationError")) PyErr_SetNone(type.get());
}

void raise_error(const backend::CheckpointError& error) {
  using Kind = backend::CheckpointError::Kind;
  if (error.kind == Kind::Inconsistent) return PyErr_SetString(PyExc_AssertionError, error.what());
  Ref type = checkpoint_module_attribute("CheckpointError");
  Ref message = Ref::steal(PyUnicode_FromString(error.what()));
  if (!type || !message) return;
  if (error.kind == Kind::Differs) {
    Ref hint = checkpoint_module_attribute("_debug_tip_msg");
    if (hint) message = Ref::steal(PyUnicode_Concat(message.get(), hint.get()));
    if (!hint || !message) return;
  }
  PyErr_SetObject(type.get(), message.get());
}

/// Like `handle_errors`, with the exceptions of a checkpoint as torch's.
template <class F>
PyObject* handle_hook_errors(const F& body) {
  return handle_errors([&]() -> PyObject* {
    try {
      return body();
    } catch (const backend::StopRecomputation&) {
      raise_stop();
    } catch (const backend::CheckpointError& error) {
      raise_error(error);
    }
    return nullptr;
  });
}

PyObject* pack(PyObject* self, PyObject* tensor) {
  return handle_hook_errors([&] {
    TORCH_CHECK_TYPE(is_tensor_object(tensor), "a hook of saved tensors takes a tensor");
    return capsule_of(held_by<Hooks>(self)->pack(tensor_of(tensor))).release();
  });
}

PyObject* unpack(PyObject* self, PyObject* stored) {
  return handle_hook_errors([&] {
    const Hooks hooks = held_by<Hooks>(self);
    const Stored held = held_by<Stored>(stored);
    at::Tensor tensor;
    {
      WithoutGil others_run;
      tensor = hooks->unpack(held);
    }
    return wrap_tensor(std::move(tensor));
  });
}

PyMethodDef pack_method = {"pack_checkpointed", pack, METH_O, nullptr};
PyMethodDef unpack_method = {"unpack_checkpointed", unpack, METH_O, nullptr};
PyObject* get_group = nullptr;  // torch's function; null if this torch has no groups

void push_hooks(Hooks hooks) {
  WithGil gil;
  Ref self = capsule_of(hooks);
  Ref to_pack = Ref::steal(PyCFunction_New(&pack_method, self.get()));
  Ref to_unpack = Ref::steal(PyCFunction_New(&unpack_method, self.get()));
  if (!to_pack || !to_unpack) throw_python_error();
  push_saved_tensor_hooks(to_pack.get(), to_unpack.get());
}

void pop_hooks() { at::SavedTensorDefaultHooks::pop_hooks(); }

void forget_error() {
  WithGil gil;
  PyErr_Clear();
}

std::shared_ptr<void> current_group() {
  if (!get_group) return nullptr;
  WithGil gil;
  Ref group = Ref::steal(PyObject_CallNoArgs(get_group));
  if (!group) throw_python_error();
  if (group.get() == Py_None) return nullptr;
  return {group.release(), [](void* object) {
            if (!Py_IsInitialized()) return;
            WithGil gil;
            Py_DECREF(static_cast<PyObject*>(object));
          }};
}

void handle_signals() {
  WithGil gil;
  if (PyErr_CheckSignals() < 0) throw_python_error();
}

}  // namespace

void install_host_hooks() {
  if (Ref torch_c = Ref::steal(PyImport_ImportModule("torch._C")))
    get_group = PyObject_GetAttrString(torch_c.get(), "_get_graph_exec_group");
  PyErr_Clear();
  backend::set_checkpoint_host({push_hooks, pop_hooks, forget_error, current_group});
  backend::set_interrupt_check(handle_signals);
}

}  // namespace stator::capture
