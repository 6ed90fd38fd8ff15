#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <typeinfo>

/// Tensors as Python objects, without the headers of torch's Python binding: those take more than ten seconds to parse.
/// Only tensor_object.cpp includes them, and it asserts that the layout below is theirs.
namespace stator::capture {

/// Whether the object is an instance of torch.Tensor.
bool is_tensor_object(PyObject* object);

/// The tensor inside an instance of torch.Tensor; lives as long as the object.
inline const at::Tensor& tensor_of(PyObject* object) {
  return *reinterpret_cast<const at::Tensor*>(reinterpret_cast<const char*>(object) + sizeof(PyObject));
}

/// The Python object of a tensor, a new reference; None for an undefined tensor. Null with a Python error set.
PyObject* wrap_tensor(const at::TensorBase& tensor);
PyObject* wrap_tensor(at::TensorBase&& tensor);

/// Makes `type` the Python class, of this name, of the autograd nodes (`grad_fn`) of a C++ class. `type` lives as long
/// as the process. False with a Python error set.
bool register_autograd_node(const std::type_info& node, PyTypeObject& type, const char* name);

/// Adds hooks for what autograd saves on this thread, as `torch.autograd.graph.saved_tensors_hooks` does. Throws where
/// hooks are forbidden. at::SavedTensorDefaultHooks::pop_hooks removes them.
void push_saved_tensor_hooks(PyObject* pack, PyObject* unpack);

/// The storage inside an instance of torch.UntypedStorage.
const c10::Storage& storage_of(PyObject* object);

/// Calls the body. A C++ exception becomes the Python error that torch's own functions raise for it, and the result is
/// null; warnings of operators become Python warnings.
PyObject* handle_errors(PyObject* (*body)(const void*), const void* context);
template <class F>
PyObject* handle_errors(const F& body) {
  return handle_errors([](const void* self) -> PyObject* { return (*static_cast<const F*>(self))(); }, &body);
}

}  // namespace stator::capture
