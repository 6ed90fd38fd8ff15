// Models for overriding of torch functions: torch-function modes, blocks that disable overriding, and Tensor's own
// `__torch_function__`.
#include "capture/guards/function_modes.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/dispatching.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/interpreter/torch/tensor_items.h"

namespace stator::capture {
namespace {

Value* any_overriding(Interpreter& in, const std::vector<Value*>& values) {
  bool found = has_active_mode(in);
  for (Value* value : values) found = found || is_overriding(in, value);
  return in.boolean(found);
}
Value* has_torch_function(Interpreter& in, CallArgs& args) { return any_overriding(in, in.unpack(args.positional[0])); }
Value* has_torch_function_variadic(Interpreter& in, CallArgs& args) { return any_overriding(in, args.positional); }

Value* is_enabled(Interpreter& in, CallArgs&) { return in.boolean(in.torch.overriding == Overriding::Enabled); }
Value* is_all_disabled(Interpreter& in, CallArgs&) {
  return in.boolean(in.torch.overriding == Overriding::AllDisabled);
}
Value* is_mode_enabled(Interpreter& in, CallArgs&) { return in.boolean(has_active_mode(in)); }
Value* mode_count(Interpreter& in, CallArgs&) { return in.integer(static_cast<int64_t>(in.torch.modes.size())); }

Value* push_mode(Interpreter& in, CallArgs& args) {
  if (args.positional[0]->kind != Kind::Object) throw Break{BreakId::unknown_call, "a torch-function mode"};
  in.torch.modes.push_back(args.positional[0]);
  return in.none();
}

Value* pop_mode(Interpreter& in, CallArgs&) {
  if (in.torch.modes.empty()) throw Break{BreakId::raises, "there is no torch-function mode to leave"};
  Value* mode = in.torch.modes.back();
  in.torch.modes.pop_back();
  return mode;
}

Value* mode_at(Interpreter& in, CallArgs& args) {
  Py_ssize_t index = index_of(in, args.positional[0]);
  if (index < 0 || static_cast<size_t>(index) >= in.torch.modes.size())
    throw Break{BreakId::raises, "there is no such torch-function mode"};
  return in.torch.modes[index];
}

/// `with torch.device(...)`: pushes a DeviceContext mode, without calling its `__enter__`.
Value* enter_device(Interpreter& in, CallArgs& args) {
  Ref module = Ref::steal(PyImport_ImportModule("torch.utils._device"));  // as torch does
  PyErr_Clear();
  PyObject* context = known_object("torch.utils._device.DeviceContext");
  if (!context) throw Break{BreakId::unknown_call, "torch.device.__enter__"};
  Value* mode = in.call(in.constant(context), arguments({args.positional[0]}));
  in.torch.modes.push_back(mode);
  return args.positional[0];
}

Value* exit_device(Interpreter& in, CallArgs& args) {
  pop_mode(in, args);
  return in.none();
}

/// A function that returns a set which torch makes once.
template <const char* const& path>
Value* fixed_set(Interpreter& in, CallArgs&) {
  static PyObject* const made = PyObject_CallNoArgs(known_object(path));
  if (!made) throw Break{BreakId::torch_error, take_error_text()};
  return in.arena.make<SetValue>(Ref::steal(PySet_New(made)), &PySet_Type);
}
const char* const kConstructors = "torch.utils._device._device_constructors";

// ---- blocks that disable overriding

const char* const kBefore = "before";

template <const char* const& path>
Value* disabling_block(Interpreter& in, CallArgs&) {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(known_object(path));
  auto* block = in.arena.make<ObjectValue>(type);
  block->step = in.frames.resumable_step();
  return block;
}
const char* const kSubclasses = "torch._C.DisableTorchFunctionSubclass";
const char* const kAll = "torch._C.DisableTorchFunction";

template <Overriding state>
Value* disable(Interpreter& in, CallArgs& args) {
  auto* block = as<ObjectValue>(args.positional[0]);
  if (!block || block->object) throw Break{BreakId::unknown_call, "an external block that disables overriding"};
  block->attributes = {{Ref::steal(PyUnicode_InternFromString(kBefore)),
                        in.integer(static_cast<int64_t>(std::exchange(in.torch.overriding, state)))}};
  return in.none();
}

Value* enable_again(Interpreter& in, CallArgs& args) {
  auto* block = as<ObjectValue>(args.positional[0]);
  if (!block || block->object || block->attributes.empty())
    throw Break{BreakId::unknown_call, "a block that was entered before the capture"};
  in.torch.overriding = static_cast<Overriding>(index_of(in, block->attributes[0].value));
  return in.none();
}

/// Calls `function(*args, **kwargs)` with overriding by subclasses disabled.
Value* call_plainly(Interpreter& in, Value* function, Value* args, Value* kwargs) {
  struct Off {
    Interpreter& in;
    Overriding before;
    explicit Off(Interpreter& i) : in(i), before(std::exchange(i.torch.overriding, Overriding::SubclassesDisabled)) {}
    ~Off() { in.torch.overriding = before; }
  } off(in);
  CallArgs given;
  if (args) given.positional = in.unpack(args);
  if (kwargs && !in.is_same(kwargs, in.none()))
    for (auto& [name, value] : mapping_items(in, kwargs)) {
      PyObject* key = in.constant_of(name);
      if (!key || !PyUnicode_CheckExact(key)) throw Break{BreakId::raises, "keywords that are not strings"};
      given.keywords.emplace_back(Ref::borrow(key), value);
    }
  return in.call(function, std::move(given));
}

/// Converts the tensors of a result to the class, as torch does.
Value* converted(Interpreter& in, Value* result, PyTypeObject* cls) {
  if (auto* tensor = as<TensorValue>(result))
    return PyType_IsSubtype(tensor->type, cls) ? tensor : as_subclass(in, tensor, cls);
  auto* sequence = as_sequence(result);
  if (!sequence) return result;
  static PyObject* const fields = PyUnicode_InternFromString("_fields");
  if (look_up(sequence->type, fields)) throw Break{BreakId::raises, "a named tuple made of one iterator"};
  auto* made = in.arena.make<SequenceValue>(sequence->kind, sequence->type);
  for (size_t i = 0; i < sequence->items.size(); ++i) made->items.push_back(converted(in, in.item(sequence, i), cls));
  return made;
}

PyObject* real_function(Interpreter& in, Value* function) {
  if (auto* python = as<FunctionValue>(function)) return python->function.get();
  return in.constant_of(function);
}

/// Tensor.__torch_function__(cls, func, types, args=(), kwargs=None)
Value* tensor_torch_function(Interpreter& in, CallArgs& args) {
  static PyObject* const kept_plain = PyObject_CallNoArgs(known_object("torch.overrides.get_default_nowrap_functions"));
  PyObject* object = in.constant_of(args.positional[0]);
  Value *function = argument(args, 1, "func"), *types = argument(args, 2, "types");
  if (!object || !PyType_Check(object) || !function || !types || !kept_plain)
    throw Break{BreakId::raises, "Tensor.__torch_function__ called with wrong arguments"};
  auto* cls = reinterpret_cast<PyTypeObject*>(object);
  for (Value* type : in.unpack(types)) {
    PyObject* other = in.constant_of(type);
    if (!other || !PyType_Check(other)) throw Break{BreakId::unknown_call, "types that are not classes"};
    if (!PyType_IsSubtype(cls, reinterpret_cast<PyTypeObject*>(other))) return in.constant(Py_NotImplemented);
  }
  Value* result = call_plainly(in, function, argument(args, 3, "args"), argument(args, 4, "kwargs"));
  PyObject* real = real_function(in, function);
  if (cls == TorchTracer::tensor_type() || (real && PySet_Contains(kept_plain, real) == 1)) return result;
  return converted(in, result, cls);
}

/// torch._C._disabled_torch_function_impl(func, types, args=(), kwargs=None)
Value* disabled_torch_function(Interpreter& in, CallArgs& args) {
  return call_plainly(in, args.positional[0], at_or_null(args, 2), at_or_null(args, 3));
}

// ---- tensors of subclasses

Value* tensor_as_subclass(Interpreter& in, CallArgs& args) {
  auto* tensor = as<TensorValue>(args.positional[0]);
  Value* given = argument(args, 1, "cls");
  PyObject* cls = given ? in.constant_of(given) : nullptr;
  if (!tensor || !cls || !PyType_Check(cls)) throw Break{BreakId::raises, "as_subclass called with wrong arguments"};
  return as_subclass(in, tensor, reinterpret_cast<PyTypeObject*>(cls));
}

/// Tensor._make_subclass(cls, data, require_grad=False), which nn.Parameter uses.
Value* make_subclass(Interpreter& in, CallArgs& args) {
  PyObject* cls = in.constant_of(args.positional[0]);
  auto* data = as<TensorValue>(args.positional[1]);
  Value* flag = argument(args, 2, "require_grad");
  if (!cls || !PyType_Check(cls) || !data) throw Break{BreakId::raises, "_make_subclass called with wrong arguments"};
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  check_tensor_class(in, type);
  OverridesDisabled inside(in);
  PyObject* fake = in.fake_of(data);
  auto* detached = static_cast<TensorValue*>(
      in.torch_result([&] { return PyObject_CallMethod(fake, "detach", nullptr); }, "detach"));
  if (flag && in.truth(flag)) {
    CallArgs require = arguments({detached});
    tensor_requires_grad(in, require);
  }
  detached->type = type;
  return detached;
}

Value* get_tensor_item(Interpreter& in, CallArgs& args) {
  auto* tensor = as<TensorValue>(args.positional[0]);
  if (!tensor) throw Break{BreakId::raises, "Tensor.__getitem__ of an object that is not a tensor"};
  return tensor_item(in, tensor, args.positional[1]);
}
Value* store_tensor_item(Interpreter& in, CallArgs& args) {
  auto* tensor = as<TensorValue>(args.positional[0]);
  if (!tensor) throw Break{BreakId::raises, "Tensor.__setitem__ of an object that is not a tensor"};
  set_tensor_item(in, tensor, args.positional[1], args.positional[2]);
  return in.none();
}

constexpr ModelRow kRows[] = {
    {"torch._C._has_torch_function", has_torch_function, 1, 1},
    {"torch._C._has_torch_function_unary", has_torch_function_variadic, 1, 1},
    {"torch._C._has_torch_function_variadic", has_torch_function_variadic},
    {"torch._C._is_torch_function_enabled", is_enabled},
    {"torch._C._is_torch_function_all_disabled", is_all_disabled},
    {"torch._C._is_torch_function_mode_enabled", is_mode_enabled},
    {"torch._C._len_torch_function_stack", mode_count},
    {"torch._C._push_on_torch_function_stack", push_mode, 1, 1},
    {"torch._C._pop_torch_function_stack", pop_mode},
    {"torch._C._get_function_stack_at", mode_at, 1, 1},
    {"torch.device.__enter__", enter_device, 1, 1},
    {"torch.device.__exit__", exit_device, 1, 4},
    {"torch.utils._device._device_constructors", fixed_set<kConstructors>, 0, 0},
    {"torch._C.DisableTorchFunctionSubclass", disabling_block<kSubclasses>, 0, 0},
    {"torch._C.DisableTorchFunctionSubclass.__enter__", disable<Overriding::SubclassesDisabled>, 1, 1},
    {"torch._C.DisableTorchFunctionSubclass.__exit__", enable_again, 1, 4},
    {"torch._C.DisableTorchFunction", disabling_block<kAll>, 0, 0},
    {"torch._C.DisableTorchFunction.__enter__", disable<Overriding::AllDisabled>, 1, 1},
    {"torch._C.DisableTorchFunction.__exit__", enable_again, 1, 4},
    {"torch.Tensor.__torch_function__.__func__", tensor_torch_function, 3, 5, "func types args kwargs"},
    {"torch._C._disabled_torch_function_impl", disabled_torch_function, 2, 4},
    {"torch._C.TensorBase.as_subclass", tensor_as_subclass, 1, 2, "cls"},
    {"torch._C.TensorBase._make_subclass", make_subclass, 2, 3, "require_grad"},
    {"torch._C.TensorBase._make_wrapper_subclass", make_wrapper, 2, 2, "*"},
    {"torch.utils._python_dispatch.return_and_correct_aliasing", return_aliased, 4, 4},
    {"torch._C.TensorBase.__getitem__", get_tensor_item, 2, 2},
    {"torch._C.TensorBase.__setitem__", store_tensor_item, 3, 3},
};

}  // namespace

std::span<const ModelRow> overrides_models() { return kRows; }

}  // namespace stator::capture
