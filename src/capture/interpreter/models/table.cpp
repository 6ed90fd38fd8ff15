// The tables of models and of C callables that need no model.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/guards/literals.h"
#include "capture/interpreter/calls/argument_errors.h"
#include "capture/interpreter/models/tables.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/keep_first.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

struct KindRow {
  const char* path;
  CallableKind kind;
};

// C functions by name. Families (torch operators, methods of literals, math) are classified by their owner below.
constexpr KindRow kKinds[] = {
    {"builtins.ord", CallableKind::Pure},
    {"builtins.str.maketrans", CallableKind::Pure},
    {"builtins.bytes.maketrans", CallableKind::Pure},
    {"sys.intern", CallableKind::Pure},
    {"os.fspath", CallableKind::Pure},
    {"re.compile", CallableKind::Pure},
    {"re.search", CallableKind::Pure},
    {"re.match", CallableKind::Pure},
    {"re.fullmatch", CallableKind::Pure},
    {"re.sub", CallableKind::Pure},
    {"re.subn", CallableKind::Pure},
    {"re.findall", CallableKind::Pure},
    {"re.split", CallableKind::Pure},
    {"re.escape", CallableKind::Pure},
    {"builtins.chr", CallableKind::Pure},
    {"builtins.hex", CallableKind::Pure},
    {"builtins.oct", CallableKind::Pure},
    {"builtins.bin", CallableKind::Pure},
    {"_struct.calcsize", CallableKind::Pure},
    {"_struct.pack", CallableKind::Pure},
    {"_struct.unpack", CallableKind::Pure},
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
    {"torch._C._len_torch_dispatch_stack", CallableKind::Pure},
    {"torch._C._get_cudnn_enabled", CallableKind::Pure},
    {"torch._C._get_mkldnn_enabled", CallableKind::Pure},
    {"torch._C._get_flash_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_mem_efficient_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_math_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_cudnn_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_overrideable_sdp_enabled", CallableKind::Pure},
    {"torch._C._get_sdp_priority_order", CallableKind::Pure},
    {"torch._C._get_deterministic_algorithms", CallableKind::Pure},
    {"torch._C._has_cuda", CallableKind::Pure},
    {"torch._C._cuda_getDeviceCount", CallableKind::Pure},  // constant within a process
    {"torch._C._xpu_getDeviceCount", CallableKind::Pure},
    {"torch._C._mps_is_available", CallableKind::Pure},
    {"torch._C._get_privateuse1_backend_name", CallableKind::Pure},
    {"torch._C._is_any_autocast_enabled", CallableKind::Pure},
    {"torch._C._are_functorch_transforms_active", CallableKind::Pure},
    {"torch._C._functorch.peek_interpreter_stack", CallableKind::Pure},
    {"torch._C._functorch._vmap_increment_nesting", CallableKind::Transform},
    {"torch._C._functorch._vmap_decrement_nesting", CallableKind::Transform},
    {"torch._C._functorch._grad_increment_nesting", CallableKind::Transform},
    {"torch._C._functorch._grad_decrement_nesting", CallableKind::Transform},
    {"torch._C._functorch._jvp_increment_nesting", CallableKind::Transform},
    {"torch._C._functorch._jvp_decrement_nesting", CallableKind::Transform},
    {"torch._C._functorch.set_inplace_requires_grad_allowed", CallableKind::Transform},
    {"torch._C._functorch._add_batch_dim", CallableKind::Torch},
    {"torch._C._functorch._remove_batch_dim", CallableKind::Torch},
    {"torch._C._functorch._unwrap_batched", CallableKind::Torch},
    {"torch._C._functorch._wrap_for_grad", CallableKind::Torch},
    {"torch._C._functorch._unwrap_for_grad", CallableKind::Torch},
    {"torch._C._functorch.get_inplace_requires_grad_allowed", CallableKind::Torch},
    {"torch._C._functorch.maybe_current_level", CallableKind::Torch},
    {"torch._C._functorch.maybe_get_level", CallableKind::Torch},
    {"torch._C._functorch.maybe_get_bdim", CallableKind::Torch},
    {"torch._C._functorch.is_batchedtensor", CallableKind::Torch},
    {"torch._C._functorch.is_gradtrackingtensor", CallableKind::Torch},
    {"torch._C._functorch.is_functorch_wrapped_tensor", CallableKind::Torch},
    {"torch._C._functorch.get_unwrapped", CallableKind::Torch},
    {"torch._C._enter_dual_level", CallableKind::Transform},
    {"torch._C._exit_dual_level", CallableKind::Transform},
    {"torch._C._set_fwd_grad_enabled", CallableKind::Transform},
    {"torch._C._autograd._saved_tensors_hooks_disable", CallableKind::Transform},
    {"torch._C._autograd._saved_tensors_hooks_enable", CallableKind::Transform},
    {"torch._C._is_fwd_grad_enabled", CallableKind::Pure},
    {"torch._C._autograd._saved_tensors_hooks_get_disabled_error_message", CallableKind::Pure},
    {"torch._C._get_accelerator", CallableKind::Pure},
    {"torch._C._accelerator_getAccelerator", CallableKind::Pure},
    {"torch._C._is_multithreading_enabled", CallableKind::Pure},
    // state that the program cannot change without a break
    {"torch._C._cuda_isCurrentStreamCapturing", CallableKind::Asked},
    {"torch._C._cuda_getDevice", CallableKind::Asked},
    {"torch._C._cuda_getCurrentStream", CallableKind::Asked},
    {"torch._C._cuda_getDefaultStream", CallableKind::Asked},
    {"torch._C._cuda_getCurrentRawStream", CallableKind::Asked},
    {"torch._C._cuda_isInBadFork", CallableKind::Asked},
    {"torch.cuda.get_device_capability", CallableKind::Asked},
    {"torch.cuda.get_device_name", CallableKind::Asked},
    {"torch.cuda.is_bf16_supported", CallableKind::Asked},
    {"torch._C._xpu_getDevice", CallableKind::Asked},
    {"torch._C._xpu_isInBadFork", CallableKind::Asked},
    {"torch._C._accelerator_getDeviceIndex", CallableKind::Asked},
    {"torch.get_num_threads", CallableKind::Asked},
    {"torch.get_num_interop_threads", CallableKind::Asked},
    {"gc.isenabled", CallableKind::Asked},
    {"gc.get_threshold", CallableKind::Asked},
    {"sys.getrecursionlimit", CallableKind::Asked},
    {"_thread.get_ident", CallableKind::Asked},
    {"_thread.get_native_id", CallableKind::Asked},
    {"stator._C.break_policy", CallableKind::Pure},
    {"stator._C.set_break_policy", CallableKind::Ambient},
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
    {"torch.device.__enter__", CallableKind::Unknown},
    {"torch.device.__exit__", CallableKind::Unknown},
    {"torch.device.__call__", CallableKind::Unknown},
    {"torch._C.TensorBase.set_", CallableKind::Unknown},
    {"torch._C.TensorBase.backward", CallableKind::Unknown},
    {"torch._C.TensorBase.data_ptr", CallableKind::Unknown},
    {"torch._C.TensorBase.numpy", CallableKind::Unknown},
    {"torch._C.TensorBase.tolist", CallableKind::Unknown},
    {"torch._C.TensorBase.item", CallableKind::Unknown},
    {"torch._C.TensorBase.apply_", CallableKind::Unknown},
    {"torch._C.TensorBase.map_", CallableKind::Unknown},
    {"torch._C.TensorBase.new", CallableKind::Unknown},
    {"torch._C.TensorBase._make_subclass", CallableKind::Unknown},
    {"torch._C.TensorBase._make_wrapper_subclass", CallableKind::Unknown},
};

struct Tables {
  std::unordered_map<PyObject*, const ModelRow*> models;
  std::unordered_map<PyObject*, CallableKind> kinds;

  /// `torch.add` and similar functions are static methods of one class and have no `__module__` or `__self__`.
  void add_variable_functions() {
    PyObject* owner = known_object("torch._C._VariableFunctionsClass");
    if (!owner) return;
    PyObject *name, *unused;
    Py_ssize_t position = 0;
    while (PyDict_Next(reinterpret_cast<PyTypeObject*>(owner)->tp_dict, &position, &name, &unused)) {
      Ref function = Ref::steal(PyObject_GetAttr(owner, name));
      PyErr_Clear();
      if (!function || !PyCFunction_Check(function.get())) continue;
      kinds.try_emplace(function.get(), CallableKind::Torch);
      overridable.insert(function.get());
    }
  }

  std::unordered_set<PyObject*> overridable;  // bindings whose owner does not identify them as overridable
  std::vector<const ModelRow*> absent;        // rows of modules that are not imported yet
  Py_ssize_t modules = 0;                     // number of imported modules at the last check
  PyObject* late[2] = {PyUnicode_InternFromString("torch._dynamo"), PyUnicode_InternFromString("torch.utils._device")};

  void add_model(const ModelRow& row) {
    if (PyObject* object = known_object(row.path))
      models.emplace(object, &row);
    else
      absent.push_back(&row);
  }
  /// Adds the rows of modules that were imported since the last call.
  void add_late_modules() {
    Py_ssize_t count = PyDict_GET_SIZE(PyImport_GetModuleDict());
    if (absent.empty() || std::exchange(modules, count) == count) return;
    for (PyObject*& name : late) {
      if (!name || !PyDict_GetItemWithError(PyImport_GetModuleDict(), name)) continue;
      name = nullptr;
      for (const ModelRow* row : std::exchange(absent, {})) add_model(*row);
    }
  }

  Tables() {
#define STATOR_MODEL_TABLE(name) \
  for (const ModelRow& row : name##_models()) add_model(row);
    STATOR_MODEL_TABLES(STATOR_MODEL_TABLE)
#undef STATOR_MODEL_TABLE
    for (const KindRow& row : kKinds)
      if (PyObject* object = known_object(row.path)) kinds.emplace(object, row.kind);
    add_variable_functions();
    for (const char* path : {"torch.device", "torch._C._set_grad_enabled"}) overridable.insert(known_object(path));
  }
};

Tables& tables() {
  static Tables* made = nullptr;  // never deleted: Python objects must not be freed after finalization
  return *keep_first(made, [] { return std::make_unique<Tables>(); });
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
    if (self && PyType_Check(self)) {
      auto* type = reinterpret_cast<PyTypeObject*>(self);
      if (is_literal_type(type) || is_value_type(type)) return CallableKind::Pure;
    }
    return CallableKind::Unknown;
  }
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable)->d_type;
    if (owner == tensor_base) return CallableKind::Torch;
    if (is_literal_type(owner) || is_value_type(owner) || owner == &PySlice_Type) return CallableKind::Pure;
    return CallableKind::Unknown;
  }
  static PyObject* const overload = known_object("torch._ops.OpOverload");
  static PyObject* const packet = known_object("torch._ops.OpOverloadPacket");
  if (reinterpret_cast<PyObject*>(type) == overload || reinterpret_cast<PyObject*>(type) == packet)
    return CallableKind::Torch;
  return CallableKind::Unknown;
}

}  // namespace

const ModelRow* model_of(PyObject* callable) {
  tables().add_late_modules();
  auto& models = tables().models;
  auto found = models.find(callable);
  return found == models.end() ? nullptr : found->second;
}

static bool takes_keyword(const ModelRow& row, PyObject* name) {
  const std::string_view names(row.keywords);
  if (names == "*") return true;
  const std::string wanted = text_of(name);
  for (size_t at = 0; at < names.size();) {
    size_t end = std::min(names.find(' ', at), names.size());
    if (names.substr(at, end - at) == wanted) return true;
    at = end + 1;
  }
  return false;
}

Value* call_model(Interpreter& in, const ModelRow& row, CallArgs& args) {
  int given = static_cast<int>(args.positional.size());
  bool fits = given <= row.most && given + static_cast<int>(args.keywords.size()) >= row.least;
  for (auto& [name, unused] : args.keywords) fits = fits && takes_keyword(row, name.get());
  if (!fits) {
    raise_argument_error(in, known_object(row.path), args);
    throw Break{BreakId::raises, std::string(row.path) + " called with wrong arguments"};
  }
  return row.model(in, args);
}

CallableKind kind_of_callable(PyObject* callable) {
  auto& kinds = tables().kinds;
  auto found = kinds.find(callable);
  return found == kinds.end() ? decide(callable) : found->second;
}

bool is_overridable(PyObject* callable) {
  static PyObject* const as_subclass = known_object("torch._C.TensorBase.as_subclass");
  return tables().overridable.contains(callable) ||
         (decide(callable) == CallableKind::Torch && callable != as_subclass);
}

}  // namespace stator::capture
