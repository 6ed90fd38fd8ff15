#include "capture/interpreter/calls/constant_calls.h"

#include "capture/guards/literals.h"
#include "capture/interpreter/calls/cached_functions.h"
#include "capture/interpreter/calls/slots.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {
namespace {

/// Whether it is a method of a C++ enumeration, which reads nothing but its member.
bool is_method_of_enum(Interpreter& in, PyObject* callable, const CallArgs& args) {
  if (Py_TYPE(callable) != &PyInstanceMethod_Type || args.positional.empty()) return false;
  PyTypeObject* type = in.type_of(args.positional[0]);
  if (!is_foreign_enum(type)) return false;
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  return name && look_up(type, name.get()) == callable;
}

/// `list[int]()`: calls the origin; the instance keeps the alias if it can have attributes.
Value* call_alias(Interpreter& in, PyObject* alias, CallArgs args) {
  static PyObject* const origin = PyUnicode_InternFromString("__origin__");
  static PyObject* const kept = PyUnicode_InternFromString("__orig_class__");
  Ref cls = Ref::steal(PyObject_GetAttr(alias, origin));
  if (!cls) raise_current(in);
  Value* made = in.call(in.constant(cls.get()), std::move(args));
  PyTypeObject* type = made->kind == Kind::Object ? in.type_of(made) : nullptr;
  if (!type || !type->tp_dictoffset) return made;
  if (type->tp_setattro != PyObject_GenericSetAttr)
    throw Break{BreakId::unknown_call, "a class with its own __setattr__, called through a typing alias"};
  in.set_attr(made, kept, in.constant(alias));
  return made;
}

/// Whether it is a C function or a method of a built-in class: neither ever changes.
bool is_native_callable(PyObject* object) {
  return PyCFunction_Check(object) || Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type;
}

/// One call of a constant, which the resolvers are asked about in turn. The one that makes the call may take `args`.
struct ConstantCall {
  Interpreter& in;
  ConstantValue* callee;
  PyObject* callable;  // of the callee, guarded
  CallArgs& args;
  CallMode mode;
};

Value* resolve_overridden(ConstantCall& c) {
  if (!may_be_overridden(c.in, c.args) || !is_overridable(c.callable) || !is_overridden(c.in, c.args)) return nullptr;
  return c.in.call_torch(c.callable, c.args);
}

Value* resolve_tensor_field(ConstantCall& c) {
  return pycompat::is_method_wrapper(c.callable) ? call_tensor_field(c.in, c.callable, c.args) : nullptr;
}

Value* resolve_model(ConstantCall& c) {
  const ModelRow* row = model_of(c.callable);
  return row ? call_model(c.in, *row, c.args) : nullptr;
}

Value* resolve_refused(ConstantCall& c) {
  refuse_tensor_method(c.callable, c.args);
  return nullptr;
}

Value* resolve_numpy(ConstantCall& c) {
  return is_numpy_callable(c.callable) ? call_numpy(c.in, c.callable, c.args) : nullptr;
}

Value* resolve_class(ConstantCall& c) {
  if (!PyType_Check(c.callable)) return nullptr;
  return c.in.instantiate(reinterpret_cast<PyTypeObject*>(c.callable), std::move(c.args), c.mode);
}

Value* resolve_alias(ConstantCall& c) {
  return Py_TYPE(c.callable) == &Py_GenericAliasType ? call_alias(c.in, c.callable, std::move(c.args)) : nullptr;
}

Value* resolve_transform(ConstantCall& c) {
  // The tangents of a level that was open before the capture are known to the real tensors only.
  if (!c.in.frames.in_transform() && TransformState::current().dual_level)
    throw Break{BreakId::unknown_call, name_of(c.callable) + " in a level of forward-mode AD"};
  Value* result = c.in.call_torch(c.callable, c.args);
  c.in.torch.refresh_transform_state();
  return result;
}

/// The outermost `autocast` block ends by emptying the cache of casts. If it was open before the capture, the program's
/// own casts are in the cache: they must outlive the capture, and another block cannot be captured with them.
Value* end_autocast(ConstantCall& c) {
  if (TorchTracer::in_autocast_block())
    throw Break{BreakId::unknown_call, "torch.clear_autocast_cache inside an autocast block"};
  c.in.torch.tracer.autocast_ended();
  if (!c.in.torch.starts_in_autocast) return call_literal(c.in, c.callable, c.args);
  return c.in.none();
}

Value* resolve_ambient(ConstantCall& c) {
  static PyObject* const clear_cache = known_object("torch.clear_autocast_cache");
  static PyObject* const begin = known_object("torch.autocast_increment_nesting");
  if (c.callable == clear_cache) return end_autocast(c);
  if (c.callable == begin && c.in.torch.starts_in_autocast && !TorchTracer::in_autocast_block())
    throw Break{BreakId::unknown_call, "a second autocast block after one that was open before the capture"};
  return call_literal(c.in, c.callable, c.args);
}

Value* resolve_kind(ConstantCall& c) {
  switch (kind_of_callable(c.callable)) {
    case CallableKind::Torch:
      return c.in.call_torch(c.callable, c.args);
    case CallableKind::Transform:
      return resolve_transform(c);
    case CallableKind::Ambient:
      return resolve_ambient(c);
    case CallableKind::Pure:
      return call_literal(c.in, c.callable, c.args);
    case CallableKind::Asked:
      return ask_again(c.in, c.callable, c.args);
    case CallableKind::Unknown:
      break;
  }
  return nullptr;
}

Value* resolve_slot(ConstantCall& c) { return call_slot(c.in, c.callable, c.args); }

Value* resolve_exception_init(ConstantCall& c) {
  if (!is_exception_init(c.callable)) return nullptr;
  const std::vector<Value*>& given = c.args.positional;
  auto* exception = given.empty() ? nullptr : as<ObjectValue>(given[0]);
  if (!exception || exception->object || !c.args.keywords.empty())
    throw Break{BreakId::raises, "an exception made with keywords"};
  std::vector<Value*> rest(given.begin() + 1, given.end());
  new_exception(c.in, exception->type, arguments(rest));
  exception->base = c.in.tuple(std::move(rest));
  return c.in.none();
}

Value* resolve_enum_method(ConstantCall& c) {
  return is_method_of_enum(c.in, c.callable, c.args) ? call_literal(c.in, c.callable, c.args) : nullptr;
}

Value* resolve_cached_function(ConstantCall& c) {
  return Py_TYPE(c.callable) == lru_cache_type() ? call_cached(c.in, c.callee, std::move(c.args)) : nullptr;
}

Value* resolve_bound_method(ConstantCall& c) {
  if (!PyCFunction_Check(c.callable) && !pycompat::is_method_wrapper(c.callable)) return nullptr;
  Ref self_object = Ref::steal(PyObject_GetAttrString(c.callable, "__self__"));
  PyErr_Clear();
  PyObject* self = self_object.get();
  if (!self || PyModule_Check(self)) return nullptr;
  Ref name = Ref::steal(PyObject_GetAttrString(c.callable, "__name__"));
  PyObject* descriptor = name ? look_up(Py_TYPE(self), name.get()) : nullptr;
  const bool is_known = descriptor && (model_of(descriptor) || kind_of_callable(descriptor) != CallableKind::Unknown);
  if (!(is_known && is_literal(self)) && !(descriptor && is_native_callable(self))) return nullptr;
  c.args.positional.insert(c.args.positional.begin(), c.in.constant(self));
  return c.in.call(c.in.constant(descriptor), std::move(c.args));
}

Value* resolve_not_callable(ConstantCall& c) {
  if (PyCallable_Check(c.callable)) return nullptr;
  c.in.raise(PyExc_TypeError, std::string("'") + Py_TYPE(c.callable)->tp_name + "' object is not callable");
}

/// Makes the call, or returns null for a callable that another resolver handles.
using Resolver = Value* (*)(ConstantCall& call);

/// Resolvers for a call of a constant, tried in order; the first that returns a value wins. The order matters only
/// where they overlap: an override comes before everything that would call torch, a model before the general rule for
/// its class or family, and the method of a class before the lookup of its descriptor.
constexpr Resolver kResolvers[] = {
    resolve_overridden,       // a binding of torch's with a `__torch_function__` among its arguments or modes
    resolve_tensor_field,     // `__get__` or `__set__` of a field of Tensor
    resolve_model,            // a C function, method or class that has a model
    resolve_refused,          // breaks at a method of Tensor that exposes a fake
    resolve_numpy,            // functions and classes of NumPy
    resolve_class,            // any other class: makes an instance
    resolve_alias,            // `list[int]`
    resolve_kind,             // families: torch's operators, pure functions, state of the thread or process
    resolve_slot,             // a special method of a built-in class, called by name
    resolve_exception_init,   // `__init__` of a built-in exception class
    resolve_enum_method,      // a method of a C++ enumeration
    resolve_cached_function,  // what functools.lru_cache made
    resolve_bound_method,     // a C method bound to a literal or a C function: its descriptor is called
    resolve_not_callable,     // raises the program's TypeError
};

}  // namespace

Value* ask_again(Interpreter& in, PyObject* callable, const CallArgs& args) {
  LiteralArgs given = literal_args(in, args);
  if (!given.positional || given.keywords) throw Break{BreakId::unknown_call, name_of(callable)};
  Ref answer = Ref::steal(PyObject_CallObject(callable, given.positional.get()));
  if (!answer) raise_current(in);
  if (!is_literal(answer.get())) throw Break{BreakId::unknown_call, name_of(callable) + " gives no literal"};
  in.guards.sources().add_fact(in.guards.sources().pinned(callable, name_of(callable).c_str()),
                               Fact{FactKind::Returns, answer, given.positional, 0, in.frames.user_line()});
  return in.constant(std::move(answer));
}

Value* call_constant(Interpreter& in, ConstantValue* callee, CallArgs& args, CallMode mode) {
  ConstantCall call{in, callee, in.constant_of(callee), args, mode};
  for (Resolver resolve : kResolvers)
    if (Value* result = resolve(call)) return result;
  throw Break{BreakId::unknown_call, name_of(call.callable)};
}

}  // namespace stator::capture
