#include "capture/interpreter/torch/hooks.h"

#include <algorithm>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/tensor_attributes.h"

namespace stator::capture {
namespace {

void require_callable(const CallArgs& args, const char* method) {
  const Kind kind = args.positional[1]->kind;
  const bool known = kind == Kind::Function || kind == Kind::Method || kind == Kind::Object || kind == Kind::Constant;
  if (!known) throw Break{BreakId::unknown_call, std::string(method) + " with a hook that may not be callable"};
}

const char* const kRegisterHook = "torch.Tensor.register_hook";
const char* const kPostAccumulate = "torch.Tensor.register_post_accumulate_grad_hook";
const char* const kHandle = "torch.utils.hooks.RemovableHandle";

const char* const kBehind = "stator.functions.hook_behind";

/// Whether the program read a dict through a weak reference: handles of hooks refer to the dict of hooks in this way.
bool has_followed_handle(const Source* source) {
  if (source->kind == SourceKind::Referent && PyDict_Check(source->object.get())) return true;
  return std::any_of(source->children.begin(), source->children.end(), has_followed_handle);
}

Value* defer_registration(Interpreter& in, const char* method, const CallArgs& args) {
  // The plan changes the tensor's dict of hooks when it ends; an external handle may refer to that dict.
  const auto& roots = in.guards.sources().roots();
  if (args.positional[0]->source && std::any_of(roots.begin(), roots.end(), has_followed_handle))
    throw Break{BreakId::mutation, "a hook is registered after the program read the hooks of a handle"};
  return defer_on_tensor(in, method, "the handle of a hook", args);
}

Value* register_on(Interpreter& in, CallArgs& args, const char* method) {
  require_callable(args, method);
  const auto& steps = in.options.hooks_on_copies;
  bool is_written = std::find(steps.begin(), steps.end(), in.frames.resumable_step()) != steps.end();
  auto* tensor = as<TensorValue>(args.positional[0]);
  Ref history = tensor ? Ref::steal(PyObject_GetAttrString(in.fake_of(tensor), "grad_fn")) : Ref();
  PyErr_Clear();
  if (method != kRegisterHook || !is_written || !history || history.get() == Py_None)
    return defer_registration(in, method, args);
  // The hook belongs to the tensor as it is now, and a later instruction writes to the tensor. The plan registers the
  // hook when it ends; it finds the right autograd node through a copy that is made now.
  CallArgs of_copy = arguments({in.call_method(tensor, "clone", {}), args.positional[1]});
  return defer_registration(in, kBehind, of_copy);
}

}  // namespace

Value* register_hook(Interpreter& in, CallArgs& args) { return register_on(in, args, kRegisterHook); }
Value* register_post_accumulate_hook(Interpreter& in, CallArgs& args) { return register_on(in, args, kPostAccumulate); }

Value* retain_grad(Interpreter& in, CallArgs& args) {
  defer_on_tensor(in, "torch._C.TensorBase.retain_grad", "nothing", args);
  return in.none();
}

Value* remove_hook(Interpreter& in, CallArgs& args) {
  static PyObject* const remove = known_object("torch.utils.hooks.RemovableHandle.remove");
  auto* handle = as<OpaqueValue>(args.positional[0]);
  if (!handle) return nullptr;
  auto* removal = in.arena.make<OpaqueValue>("nothing");
  removal->callable = Ref::borrow(remove);
  removal->arguments = {handle};
  in.effects.add({EffectKind::Make, removal});
  return in.none();
}

Value* enter_handle(Interpreter&, CallArgs& args) { return as<OpaqueValue>(args.positional[0]); }

PyTypeObject* deferred_class(const OpaqueValue* made) {
  for (const char* path : {kRegisterHook, kPostAccumulate, kBehind})
    if (made->callable.get() == known_object(path)) return reinterpret_cast<PyTypeObject*>(known_object(kHandle));
  return nullptr;
}

bool has_deferred_hooks(const Interpreter& in) {
  return std::any_of(in.effects.begin(), in.effects.end(), [](const Effect& effect) {
    auto* made = effect.kind == EffectKind::Make ? as<OpaqueValue>(effect.target) : nullptr;
    return made && deferred_class(made) && made->arguments[0]->source;
  });
}

}  // namespace stator::capture
