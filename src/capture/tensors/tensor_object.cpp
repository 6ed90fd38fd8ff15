#include "capture/tensors/tensor_object.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <type_traits>

namespace stator::capture {

static_assert(offsetof(THPVariable, cdata) == sizeof(PyObject));
static_assert(std::is_same_v<decltype(THPVariable::cdata), at::Tensor>);

bool is_tensor_object(PyObject* object) { return THPVariable_Check(object); }

PyObject* wrap_tensor(const at::TensorBase& tensor) { return THPVariable_Wrap(tensor); }

PyObject* wrap_tensor(at::TensorBase&& tensor) { return THPVariable_Wrap(std::move(tensor)); }

bool register_autograd_node(const std::type_info& node, PyTypeObject& type, const char* name) {
  if (!torch::autograd::_initFunctionPyTypeObject(type, name, nullptr, nullptr)) return false;
  torch::autograd::registerCppFunction(node, &type);
  return true;
}

void push_saved_tensor_hooks(PyObject* pack, PyObject* unpack) {
  at::SavedTensorDefaultHooks::lazy_initialize();
  at::SavedTensorDefaultHooks::push_hooks(c10::SafePyObject(Py_NewRef(pack), getPyInterpreter()),
                                          c10::SafePyObject(Py_NewRef(unpack), getPyInterpreter()));
}

const c10::Storage& storage_of(PyObject* object) { return THPStorage_Unpack(object); }

PyObject* handle_errors(PyObject* (*body)(const void*), const void* context) {
  HANDLE_TH_ERRORS
  return body(context);
  END_HANDLE_TH_ERRORS
}

}  // namespace stator::capture
