// Which C callables the interpreter knows, and how.
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/guards/literals.h"
#include "capture/interpreter/interpreter.h"
#include "capture/interpreter/known_types.h"

namespace stator::capture {
namespace {

struct KindRow {
  const char* path;
  CallableKind kind;
};

// C functions by name; whole families (operators of torch, methods of literals, math) are decided by owner below.
constexpr KindRow kKinds[] = {
    {"builtins.abs", CallableKind::Pure},
    {"builtins.divmod", CallableKind::Pure},
    {"builtins.pow", CallableKind::Pure},
    {"builtins.round", CallableKind::Pure},
    {"builtins.ord", CallableKind::Pure},
    {"builtins.chr", CallableKind::Pure},
    {"builtins.hex", CallableKind::Pure},
    {"builtins.oct", CallableKind::Pure},
    {"builtins.bin", CallableKind::Pure},
    {"builtins.ascii", CallableKind::Pure},
    {"builtins.format", CallableKind::Pure},
    {"builtins.hash", CallableKind::Unknown},
    {"torch.is_grad_enabled", CallableKind::Pure},
    {"torch.is_inference_mode_enabled", CallableKind::Pure},
    {"torch.is_autocast_enabled", CallableKind::Pure},
    {"torch.is_autocast_cpu_enabled", CallableKind::Pure},
    {"torch.get_autocast_dtype", CallableKind::Pure},
    {"torch.get_autocast_gpu_dtype", CallableKind::Pure},
    {"torch.get_autocast_cpu_dtype", CallableKind::Pure},
    {"torch.is_autocast_cache_enabled", CallableKind::Pure},
    {"torch._C._is_autocast_available", CallableKind::Pure},
    {"torch.get_default_dtype", CallableKind::Pure},
    {"torch._C._is_tracing", CallableKind::Pure},
    {"torch._C._get_tracing_state", CallableKind::Pure},
    {"torch.promote_types", CallableKind::Pure},
    {"torch.can_cast", CallableKind::Pure},
    {"torch._C._is_torch_function_enabled", CallableKind::Pure},
    {"torch._C._is_torch_function_all_disabled", CallableKind::Pure},
    {"torch._C._len_torch_function_stack", CallableKind::Pure},
    {"torch._C._len_torch_dispatch_stack", CallableKind::Pure},
    {"torch._C._get_cudnn_enabled", CallableKind::Pure},
    {"torch._C._get_mkldnn_enabled", CallableKind::Pure},
    {"torch._C._get_flash_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_mem_efficient_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_math_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_deterministic_algorithms", CallableKind::Pure},
    {"torch._C._has_cuda", CallableKind::Pure},
    {"torch._C._get_privateuse1_backend_name", CallableKind::Pure},
    {"torch._C._is_torch_function_mode_enabled", CallableKind::Pure},
    {"torch.get_num_threads", CallableKind::Pure},
    {"torch._C._functorch.peek_interpreter_stack", CallableKind::Pure},
    {"torch._C._get_accelerator", CallableKind::Pure},
    {"torch._C._is_multithreading_enabled", CallableKind::Pure},
    {"torch.set_autocast_enabled", CallableKind::Ambient},
    {"torch.set_autocast_dtype", CallableKind::Ambient},
    {"torch.set_autocast_cpu_enabled", CallableKind::Ambient},
    {"torch.set_autocast_cpu_dtype", CallableKind::Ambient},
    {"torch.set_autocast_gpu_dtype", CallableKind::Ambient},
    {"torch.set_autocast_cache_enabled", CallableKind::Ambient},
    {"torch.autocast_increment_nesting", CallableKind::Ambient},
    {"torch.autocast_decrement_nesting", CallableKind::Ambient},
    {"torch.clear_autocast_cache", CallableKind::Ambient},
    {"torch._C._set_grad_enabled", CallableKind::Ambient},
    // constructors from data and storage: the interpreter models them or breaks
    {"torch.tensor", CallableKind::Unknown},
    {"torch.as_tensor", CallableKind::Unknown},
    {"torch.asarray", CallableKind::Unknown},
    {"torch.from_numpy", CallableKind::Unknown},
    {"torch.frombuffer", CallableKind::Unknown},
    {"torch.from_file", CallableKind::Unknown},
    {"torch.sparse_coo_tensor", CallableKind::Unknown},
    {"torch.sparse_csr_tensor", CallableKind::Unknown},
    {"torch.sparse_compressed_tensor", CallableKind::Unknown},
    {"torch.nested_tensor", CallableKind::Unknown},
    {"torch._C.TensorBase.set_", CallableKind::Unknown},
    {"torch._C.TensorBase.backward", CallableKind::Unknown},
    {"torch._C.TensorBase.data_ptr", CallableKind::Unknown},
    {"torch._C.TensorBase.numpy", CallableKind::Unknown},
    {"torch._C.TensorBase.tolist", CallableKind::Unknown},
    {"torch._C.TensorBase.item", CallableKind::Unknown},
    {"torch._C.TensorBase.apply_", CallableKind::Unknown},
    {"torch._C.TensorBase.map_", CallableKind::Unknown},
    {"torch._C.TensorBase.new_tensor", CallableKind::Unknown},
    {"torch._C.TensorBase.new", CallableKind::Unknown},
    {"torch._C.TensorBase._make_subclass", CallableKind::Unknown},
    {"torch._C.TensorBase._make_wrapper_subclass", CallableKind::Unknown},
};

struct Tables {
  std::unordered_map<PyObject*, Model> models;
  std::unordered_map<PyObject*, CallableKind> kinds;

  /// `torch.add` and its like are static methods of one class, and say nothing of where they come from.
  void add_variable_functions() {
    PyObject* owner = known_object("torch._C._VariableFunctionsClass");
    if (!owner) return;
    PyObject *name, *unused;
    Py_ssize_t position = 0;
    while (PyDict_Next(reinterpret_cast<PyTypeObject*>(owner)->tp_dict, &position, &name, &unused)) {
      Ref function = Ref::steal(PyObject_GetAttr(owner, name));
      PyErr_Clear();
      if (function && PyCFunction_Check(function.get())) kinds.try_emplace(function.get(), CallableKind::Torch);
    }
  }

  std::vector<ModelRow> absent;  // of modules that are not imported yet

  void add_model(const ModelRow& row) {
    if (PyObject* object = known_object(row.path))
      models.emplace(object, row.model);
    else
      absent.push_back(row);
  }
  /// torch._dynamo is imported late, if ever: its rows are looked up again when it is there.
  void look_again() {
    static PyObject* const name = PyUnicode_InternFromString("torch._dynamo");
    if (absent.empty() || !PyDict_GetItemWithError(PyImport_GetModuleDict(), name)) return;
    for (const ModelRow& row : std::exchange(absent, {}))
      if (PyObject* object = known_object(row.path)) models.emplace(object, row.model);
  }

  Tables() {
    for (auto rows : {builtin_function_models(), builtin_type_models(), container_models(), torch_models(),
                      library_models(), copy_models()})
      for (const ModelRow& row : rows) add_model(row);
    for (const KindRow& row : kKinds)
      if (PyObject* object = known_object(row.path)) kinds.emplace(object, row.kind);
    add_variable_functions();
  }
};

Tables& tables() {
  static Tables* made = new Tables;  // lives as long as the process: Python objects must not be freed after it ends
  return *made;
}

bool is_pure_module(PyObject* module) {
  static PyObject* const names[] = {known_object("math.sin"), known_object("_operator.add"), known_object("cmath.sin")};
  for (PyObject* probe : names)
    if (probe && PyCFunction_GET_SELF(probe) == module) return true;
  return false;
}

CallableKind decide(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  static PyTypeObject* const tensor_base = reinterpret_cast<PyTypeObject*>(known_object("torch._C.TensorBase"));
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    static PyObject* const owners[] = {known_object("torch._C._nn"), known_object("torch._C._linalg"),
                                       known_object("torch._C._fft"), known_object("torch._C._special")};
    for (PyObject* owner : owners)
      if (owner && self == owner) return CallableKind::Torch;
    if (self && PyModule_Check(self) && is_pure_module(self)) return CallableKind::Pure;
    if (self && PyType_Check(self) && is_literal_type(reinterpret_cast<PyTypeObject*>(self))) return CallableKind::Pure;
    return CallableKind::Unknown;
  }
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable)->d_type;
    if (owner == tensor_base) return CallableKind::Torch;
    if (is_literal_type(owner)) return CallableKind::Pure;
    return CallableKind::Unknown;
  }
  static PyObject* const overload = known_object("torch._ops.OpOverload");
  static PyObject* const packet = known_object("torch._ops.OpOverloadPacket");
  if (reinterpret_cast<PyObject*>(type) == overload || reinterpret_cast<PyObject*>(type) == packet)
    return CallableKind::Torch;
  return CallableKind::Unknown;
}

}  // namespace

Model model_of(PyObject* callable) {
  tables().look_again();
  auto& models = tables().models;
  auto found = models.find(callable);
  return found == models.end() ? nullptr : found->second;
}

CallableKind kind_of_callable(PyObject* callable) {
  auto& kinds = tables().kinds;
  auto found = kinds.find(callable);
  return found == kinds.end() ? decide(callable) : found->second;
}

}  // namespace stator::capture
