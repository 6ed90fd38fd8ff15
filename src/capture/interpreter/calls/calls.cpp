// Calls: argument binding by CPython's rules, inlining of Python functions, dispatch to models and torch.
#include "capture/guards/break_policy.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/calls/allowed.h"
#include "capture/interpreter/calls/cached_functions.h"
#include "capture/interpreter/calls/known_code.h"
#include "capture/interpreter/calls/misfits.h"
#include "capture/interpreter/calls/slots.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/nesting.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/interpreter/weak_references.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {

Value* CallArgs::keyword(const char* name) const {
  for (auto& [key, value] : keywords)
    if (PyUnicode_CompareWithASCIIString(key.get(), name) == 0) return value;
  return nullptr;
}

namespace {

/// Defaults of a function as values: the program's own, or the outside function's by source.
Value* default_at(Interpreter& in, FunctionValue* function, size_t index) {
  if (!function->function) return in.item(as_sequence(function->defaults), index);
  PyObject* defaults = PyFunction_GET_DEFAULTS(function->function.get());
  PyObject* object = PyTuple_GET_ITEM(defaults, index);
  return in.wrap(
      object, in.sources().child(function->source, SourceKind::Default, static_cast<int32_t>(index), nullptr, object));
}

size_t default_count(Interpreter& in, FunctionValue* function) {
  if (function->function) {
    PyObject* defaults = PyFunction_GET_DEFAULTS(function->function.get());
    return defaults ? PyTuple_GET_SIZE(defaults) : 0;
  }
  if (!function->defaults) return 0;
  if (auto* constant = as<ConstantValue>(function->defaults)) function->defaults = in.tuple(in.unpack(constant));
  return as_sequence(function->defaults)->items.size();
}

Value* keyword_default(Interpreter& in, FunctionValue* function, PyObject* name) {
  if (!function->function)
    return function->kwdefaults ? in.dict_get(as<DictValue>(function->kwdefaults), in.constant(name)) : nullptr;
  PyObject* defaults = PyFunction_GET_KW_DEFAULTS(function->function.get());
  PyObject* object = defaults ? PyDict_GetItemWithError(defaults, name) : nullptr;
  if (!object) return nullptr;
  return in.wrap(object, in.sources().child(function->source, SourceKind::KwDefault, 0, name, object));
}

[[noreturn]] void bad_call(Interpreter& in, FunctionValue* function, const pycompat::Code& code, const CallArgs& args) {
  std::vector<PyObject*> keyword_defaults;
  for (int i = code.argcount; i < code.argcount + code.kwonlyargcount; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code.localsplus_names, i);
    const bool has_one = keyword_default(in, function, name) != nullptr;
    if (has_one) keyword_defaults.push_back(name);
    // That an outside function has none is not guarded.
    const bool is_given = std::any_of(args.keywords.begin(), args.keywords.end(),
                                      [&](auto& keyword) { return PyUnicode_Compare(keyword.first.get(), name) == 0; });
    if (!has_one && !is_given && function->function)
      throw Break{BreakId::raises, name_of(function->function.get()) + "() is called with wrong arguments"};
  }
  static PyObject* const qualified = PyUnicode_InternFromString("__qualname__");
  Ref name = in.literal_of(in.get_attr(function, qualified));
  if (!name || !PyUnicode_Check(name.get()))
    throw Break{BreakId::raises, "a function that is called with wrong arguments"};
  raise_unbound(in, code, name.get(), default_count(in, function), keyword_defaults, args);
}

void bind(Interpreter& in, FunctionValue* function, const pycompat::Code& code, CallArgs& args, Frame& frame) {
  size_t positional = code.argcount, total = positional + code.kwonlyargcount;
  size_t given = std::min(args.positional.size(), positional);
  for (size_t i = 0; i < given; ++i) frame.locals[i] = args.positional[i];
  size_t next_slot = total;
  if (code.has_varargs()) {
    frame.locals[next_slot++] = in.tuple({args.positional.begin() + given, args.positional.end()});
  } else if (args.positional.size() > positional) {
    bad_call(in, function, code, args);
  }
  DictValue* rest = code.has_varkeywords() ? in.dict() : nullptr;
  if (rest) frame.locals[next_slot] = rest;
  for (auto& [name, value] : args.keywords) {
    size_t slot = code.posonlyargcount;
    for (; slot < total; ++slot) {
      PyObject* parameter = PyTuple_GET_ITEM(code.localsplus_names, slot);
      if (parameter == name.get() || PyUnicode_Compare(parameter, name.get()) == 0) break;
    }
    if (slot < total) {
      if (frame.locals[slot]) bad_call(in, function, code, args);
      frame.locals[slot] = value;
    } else if (rest) {
      in.dict_set(rest, in.constant(name), value);
    } else {
      bad_call(in, function, code, args);
    }
  }
  size_t defaults = 0;
  bool counted = false;
  for (size_t slot = 0; slot < positional; ++slot) {
    if (frame.locals[slot]) continue;
    if (!counted) {
      defaults = default_count(in, function);
      counted = true;
    }
    if (slot + defaults < positional) bad_call(in, function, code, args);
    frame.locals[slot] = default_at(in, function, slot + defaults - positional);
  }
  for (size_t slot = positional; slot < total; ++slot) {
    if (frame.locals[slot]) continue;
    frame.locals[slot] = keyword_default(in, function, PyTuple_GET_ITEM(code.localsplus_names, slot));
    if (!frame.locals[slot]) bad_call(in, function, code, args);
  }
}

Value* call_partial(Interpreter& in, ObjectValue* partial, CallArgs args) {
  static PyObject* const func = PyUnicode_InternFromString("func");
  static PyObject* const bound = PyUnicode_InternFromString("args");
  static PyObject* const keywords = PyUnicode_InternFromString("keywords");
  auto part = [&](PyObject* name) -> Value* {
    if (Value** written = partial->find(name)) return *written;
    Ref object = Ref::steal(PyObject_GetAttr(partial->object.get(), name));
    return in.wrap(object.get(),
                   in.sources().child(partial->source, SourceKind::Attribute, kClassField, name, object.get()));
  };
  CallArgs all;
  all.positional = in.unpack(part(bound));
  all.positional.insert(all.positional.end(), args.positional.begin(), args.positional.end());
  for (auto& [key, value] : mapping_items(in, part(keywords))) {
    PyObject* name = in.constant_of(key);
    bool overridden = false;
    for (auto& [given, unused] : args.keywords) overridden = overridden || PyUnicode_Compare(given.get(), name) == 0;
    if (!overridden) all.keywords.emplace_back(Ref::borrow(name), value);
  }
  for (auto& keyword : args.keywords) all.keywords.push_back(keyword);
  return in.call(part(func), std::move(all));
}

/// torch.jit.script keeps the Python function that it read: that is what runs. Where a script would turn an int into a
/// float the two differ.
Value* call_scripted(Interpreter& in, ObjectValue* scripted, CallArgs args) {
  static PyObject* const name = PyUnicode_InternFromString("_torchdynamo_inline");
  auto* original = as<FunctionValue>(in.get_attr(scripted, name));
  PyObject* function = original ? original->function.get() : nullptr;
  if (!function) throw Break{BreakId::unknown_call, "a scripted function without its Python function"};
  PyObject* annotations = PyFunction_GetAnnotations(function);
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  Ref names = Ref::steal(PyCode_GetVarnames(code));
  auto check = [&](PyObject* parameter, Value* value) {
    PyObject* declared = annotations ? PyDict_GetItemWithError(annotations, parameter) : nullptr;
    bool whole = !declared || declared == reinterpret_cast<PyObject*>(&PyLong_Type) ||
                 declared == reinterpret_cast<PyObject*>(&PyBool_Type);
    if (!whole && PyLong_Check(in.constant_of(value)))
      throw Break{BreakId::unknown_call, "a scripted function that is given an int for something else"};
  };
  for (size_t i = 0; i < args.positional.size() && i < static_cast<size_t>(code->co_argcount); ++i)
    if (args.positional[i]->kind == Kind::Constant)
      check(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(i)), args.positional[i]);
  for (auto& [parameter, value] : args.keywords)
    if (value->kind == Kind::Constant) check(parameter.get(), value);
  return in.call(original, std::move(args));
}

/// Methods of C++ enumerations only look at their members.
bool is_method_of_enum(Interpreter& in, PyObject* callable, const CallArgs& args) {
  if (Py_TYPE(callable) != &PyInstanceMethod_Type || args.positional.empty()) return false;
  PyTypeObject* type = in.type_of(args.positional[0]);
  if (!is_foreign_enum(type)) return false;
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  return name && _PyType_Lookup(type, name.get()) == callable;
}

/// `list[int]()`: what its origin makes, which keeps the alias where it can.
Value* call_alias(Interpreter& in, PyObject* alias, CallArgs args) {
  static PyObject* const origin = PyUnicode_InternFromString("__origin__");
  static PyObject* const kept = PyUnicode_InternFromString("__orig_class__");
  Ref cls = Ref::steal(PyObject_GetAttr(alias, origin));
  if (!cls) raise_current(in);
  Value* made = in.call(in.constant(cls.get()), std::move(args));
  PyTypeObject* type = made->kind == Kind::Object ? in.type_of(made) : nullptr;
  if (!type || !type->tp_dictoffset) return made;
  if (type->tp_setattro != PyObject_GenericSetAttr)
    throw Break{BreakId::unknown_call, "a class that is called by an alias, and stores attributes in its own way"};
  in.set_attr(made, kept, in.constant(alias));
  return made;
}

/// A question about the process or thread: the answer is a literal, and holds where a guard gets the same.
Value* ask_again(Interpreter& in, PyObject* callable, const CallArgs& args) {
  LiteralArgs given = literal_args(in, args);
  if (!given.positional || given.keywords) throw Break{BreakId::unknown_call, name_of(callable)};
  Ref answer = Ref::steal(PyObject_CallObject(callable, given.positional.get()));
  if (!answer) raise_current(in);
  if (!is_literal(answer.get())) throw Break{BreakId::unknown_call, name_of(callable) + " gives no literal"};
  in.sources().add_fact(in.sources().pinned(callable, name_of(callable).c_str()),
                        Fact{FactKind::Answers, answer, given.positional, 0, in.user_line()});
  return in.constant(std::move(answer));
}

/// A function or method of a built-in class, which is what it is for good.
bool is_native_callable(PyObject* object) {
  return PyCFunction_Check(object) || Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type;
}

Value* call_constant(Interpreter& in, ConstantValue* callee, CallArgs args, Continuation how) {
  PyObject* callable = in.constant_of(callee);
  if (may_be_overridden(in, args) && is_overridable(callable) && is_overridden(in, args))
    return in.call_torch(callable, args);
  if (pycompat::is_method_wrapper(callable))
    if (Value* result = call_tensor_field(in, callable, args)) return result;
  if (const ModelRow* row = model_of(callable)) return call_model(in, *row, args);
  if (is_numpy_callable(callable)) return call_numpy(in, callable, args);
  if (PyType_Check(callable)) {
    in.continuation = how;
    return in.instantiate(reinterpret_cast<PyTypeObject*>(callable), std::move(args));
  }
  if (Py_TYPE(callable) == &Py_GenericAliasType) return call_alias(in, callable, std::move(args));
  switch (kind_of_callable(callable)) {
    case CallableKind::Torch:
      return in.call_torch(callable, args);
    case CallableKind::Transform: {
      // Of a level that was open before, tangents are known to the real tensors alone.
      if (!in.in_transform && TransformState::current().dual_level)
        throw Break{BreakId::unknown_call, name_of(callable) + " in a level of forward-mode AD"};
      Value* result = in.call_torch(callable, args);
      in.look_at_levels();
      return result;
    }
    case CallableKind::Ambient: {
      static PyObject* const end_of_autocast = known_object("torch.clear_autocast_cache");
      Value* result = call_literal(in, callable, args);
      if (callable == end_of_autocast) in.torch.autocast_ended();
      return result;
    }
    case CallableKind::Pure:
      return call_literal(in, callable, args);
    case CallableKind::Asked:
      return ask_again(in, callable, args);
    case CallableKind::Unknown:
      break;
  }
  if (Value* result = call_slot(in, callable, args)) return result;
  if (is_exception_init(callable)) {
    auto* exception = args.positional.empty() ? nullptr : as<ObjectValue>(args.positional[0]);
    if (!exception || exception->object || !args.keywords.empty())
      throw Break{BreakId::raises, "an exception made with keywords"};
    new_exception(in, exception->type, arguments({args.positional.begin() + 1, args.positional.end()}));
    exception->base = in.tuple({args.positional.begin() + 1, args.positional.end()});
    return in.none();
  }
  if (is_method_of_enum(in, callable, args)) return call_literal(in, callable, args);
  if (Py_TYPE(callable) == lru_cache_type()) return call_cached(in, callee, std::move(args));
  if (PyCFunction_Check(callable) || pycompat::is_method_wrapper(callable)) {
    // A method bound to a class or literal: its descriptor may have a model.
    Ref self_object = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    PyErr_Clear();
    PyObject* self = self_object.get();
    if (self && !PyModule_Check(self)) {
      Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
      PyObject* descriptor = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
      const bool is_known =
          descriptor && (model_of(descriptor) || kind_of_callable(descriptor) != CallableKind::Unknown);
      if ((is_known && is_literal(self)) || (descriptor && is_native_callable(self))) {
        args.positional.insert(args.positional.begin(), in.constant(self));
        return in.call(in.constant(descriptor), std::move(args));
      }
    }
  }
  if (!PyCallable_Check(callable))
    in.raise(PyExc_TypeError, std::string("'") + Py_TYPE(callable)->tp_name + "' object is not callable");
  throw Break{BreakId::unknown_call, name_of(callable)};
}

}  // namespace

Value* Interpreter::call_method(Value* self, const char* name, std::vector<Value*> positional) {
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  CallArgs args;
  args.positional = std::move(positional);
  return call(get_attr(self, key.get()), std::move(args));
}

/// What users gave to be captured in place of a callable; null: itself. Breaks for what they disallowed.
static Value* substitute_of(Interpreter& in, Value* callee) {
  PyObject* object = nullptr;
  Source* source = nullptr;
  if (callee->kind == Kind::Constant) {
    object = static_cast<ConstantValue*>(callee)->object.get();
  } else if (callee->kind == Kind::Function) {
    object = static_cast<FunctionValue*>(callee)->function.get();
    source = callee->source;
  }
  if (!object) return nullptr;
  if (in.marks.is_disallowed(object)) throw Break{BreakId::disabled, name_of(object) + ": disallowed in graphs"};
  Ref substitute = in.marks.substitute_of(object);
  if (!substitute) return nullptr;
  // It may call the original itself.
  for (const Frame* f = in.frame; f; f = f->caller)
    if (f->function && f->function->function.get() == substitute.get()) return nullptr;
  if (source) in.guard(source, FactKind::Identity, object);
  return in.wrap(substitute.get(), in.sources().pinned(substitute.get(), "a substitute"));
}

Value* Interpreter::call(Value* callee, CallArgs args) {
  // Only a call whose result is the instruction's own is handed on; every other call stands below unknown code.
  Continuation how = std::exchange(continuation, Continuation::Opaque);
  callee = unproxied(*this, callee);
  // A break in the substitute is one of the call, which is then that of the original.
  if (Value* substitute = substitute_of(*this, callee)) return call(substitute, std::move(args));
  switch (callee->kind) {
    case Kind::Function:
      continuation = how;
      return call_function(static_cast<FunctionValue*>(callee), std::move(args));
    case Kind::Method: {
      auto* method = static_cast<MethodValue*>(callee);
      args.positional.insert(args.positional.begin(), method->self);
      continuation = how;
      return call(method->function, std::move(args));
    }
    case Kind::Constant:
      return call_constant(*this, static_cast<ConstantValue*>(callee), std::move(args), how);
    case Kind::Object: {
      auto* object = static_cast<ObjectValue*>(callee);
      if (object->type == partial_type()) return call_partial(*this, object, std::move(args));
      if (object->type == script_function_type()) return call_scripted(*this, object, std::move(args));
      if (is_transparent(object->type)) {
        static PyObject* const wrapped = PyUnicode_InternFromString("__wrapped__");
        Value* inner = get_attr(object, wrapped);
        Ref policy = Ref::steal(PyObject_GetAttrString(object->object.get(), "error_on_graph_break"));
        PyErr_Clear();
        if (policy && policy.get() != Py_None) policy_ = policy.get() == Py_True;
        continuation = how;
        // Within a block that says so, too, the function is the inner one.
        std::optional<BreakPolicyScope> own;
        if (policy_ && break_policy()) own.emplace(*policy_);
        return call(inner, std::move(args));
      }
      if (object->object && is_numpy_callable(object->object.get()))
        return call_numpy(*this, object->object.get(), args);
      if (object->object && kind_of_callable(object->object.get()) == CallableKind::Torch)
        return call_torch(object->object.get(), args);
      if (object->object && object->source && marks.is_allowed(object->object.get())) {
        guard(object->source, FactKind::Identity, object->object.get());
        return call_torch(object->object.get(), args);
      }
      // `__call__` may be an instance that is called by its own `__call__`, and so on.
      Nesting nesting;
      static PyObject* const call_name = PyUnicode_InternFromString("__call__");
      Value* method = type_method(*this, callee, call_name);
      continuation = how;
      return call(method, std::move(args));
    }
    case Kind::Tensor:
      raise(PyExc_TypeError, "'Tensor' object is not callable");
    default:
      throw Break{BreakId::unknown_call, std::string("a call of a ") + type_of(callee)->tp_name};
  }
}

/// Functions that `disable` marked, by either system, are left to Python. Torch's other compiler marks parts of the
/// optimizers for itself as soon as it is used; of those the original is given back, to be captured.
static PyObject* unless_disabled(PyObject* function) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (attributes && PyDict_GetItemString(attributes, "_dynamo_forbidden") == Py_True)
    throw Break{BreakId::disabled, name_of(function) + ": forbidden in graphs"};
  PyObject* mark = attributes ? PyDict_GetItemString(attributes, "_torchdynamo_disable") : nullptr;
  if (!mark || mark == Py_False) return nullptr;
  PyObject* module = reinterpret_cast<PyFunctionObject*>(function)->func_module;
  PyObject* original = PyDict_GetItemString(attributes, "_torchdynamo_orig_callable");
  if (original && module && PyUnicode_Check(module) &&
      std::string_view(PyUnicode_AsUTF8(module)).starts_with("torch.optim."))
    return original;
  PyObject* why = PyDict_GetItemString(attributes, "_torchdynamo_disable_msg");
  const char* text = why && PyUnicode_Check(why) ? PyUnicode_AsUTF8(why) : nullptr;
  throw Break{BreakId::disabled, name_of(function) + (text ? std::string(": ") + text : "")};
}

/// A function whose result its author declared to be the same for as long as the process lives. It is called now, on
/// the objects themselves, and what it gives is a constant of the program.
static Value* call_marked_constant(Interpreter& in, FunctionValue* function, const CallArgs& args) {
  auto real = [&](Value* value) -> Ref {
    if (Ref literal = in.literal_of(value)) return literal;
    auto* object = as<ObjectValue>(value);
    if (!object || !object->object || !object->attributes.empty() || !object->source)
      throw Break{BreakId::unknown_call, name_of(function->function.get()) + " on something that the program made"};
    in.guard(object->source, FactKind::Identity, object->object.get());
    return object->object;
  };
  in.guard(function->source, FactKind::Identity, function->function.get());
  Ref positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), real(args.positional[i]).release());
  Ref keywords = Ref::steal(PyDict_New());
  for (auto& [name, value] : args.keywords) PyDict_SetItem(keywords.get(), name.get(), real(value).get());
  Ref result = Ref::steal(PyObject_Call(function->function.get(), positional.get(), keywords.get()));
  if (!result) raise_current(in);
  if (is_literal(result.get())) return in.constant(result);
  return in.wrap(result.get(), in.sources().pinned(result.get(), "a result marked constant"));
}

static bool is_marked_constant(PyObject* function) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return attributes && PyDict_GetItemString(attributes, "_dynamo_marked_constant") == Py_True;
}

void Interpreter::open_closure(FunctionValue* function) {
  PyObject* closure = function->closure.empty() ? PyFunction_GET_CLOSURE(function->function.get()) : nullptr;
  Ref names = closure ? Ref::steal(PyCode_GetFreevars(function->code)) : Ref();
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    Source* source = sources_->child(function->source, SourceKind::Cell, static_cast<int32_t>(i), name, cell);
    function->closure.push_back(as<CellValue>(wrap(cell, source)));
  }
}

Value* Interpreter::run_class_body(FunctionValue* body, DictValue* names) {
  next_names_ = names;
  return call_function(body, {});
}

Value* Interpreter::call_function(FunctionValue* function, CallArgs args) {
  Continuation how = std::exchange(continuation, Continuation::Opaque);
  if (function->function) {
    if (const ModelRow* row = model_of(function->function.get()); row && !(row->asks && is_overridden(*this, args)))
      if (Value* result = call_model(*this, *row, args)) return result;
    CallableKind kind = kind_of_callable(function->function.get());
    if (kind == CallableKind::Torch) return call_torch(function->function.get(), args);
    if (kind == CallableKind::Pure) return call_literal(*this, function->function.get(), args);
    if (!function->guarded) {
      PyObject* object = function->function.get();
      if (PyObject* original = unless_disabled(object)) {
        guard(function->source, FactKind::Identity, object);
        return call(wrap(original, sources_->pinned(original, "an optimizer's function")), std::move(args));
      }
      if (is_marked_constant(object)) return call_marked_constant(*this, function, args);
      bool by_identity = function->source->kind != SourceKind::Argument && function->source->kind != SourceKind::Item &&
                         function->source->kind != SourceKind::CellContents;
      if (by_identity) guard(function->source, FactKind::Identity, object);
      guard(function->source, FactKind::Code, PyFunction_GET_CODE(object),
            reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(object)));
      function->guarded = true;
    }
    const std::vector<PyCodeObject*>& nodes = manner.as_nodes;
    if (std::find(nodes.begin(), nodes.end(), function->code) != nodes.end() &&
        marks.is_allowed(function->function.get()))
      return call_as_node(*this, function, args);
    open_closure(function);
  }
  if (KnownCode known = known_code(function->code)) return known(*this, function, args);
  const pycompat::Code* code = pycompat::decode(function->code);
  if (!code) {
    PyErr_Clear();
    throw Break{BreakId::internal, "bytecode of an unknown version"};
  }
  auto inner = std::make_unique<Frame>();
  inner->owner = this;
  inner->continuation = how;
  inner->break_is_error = std::exchange(policy_, std::nullopt).value_or(frame->break_is_error);
  inner->code = code;
  inner->function = function;
  inner->globals = function->globals;
  inner->globals_source = function->globals_source;
  inner->builtins = frame->builtins;
  inner->names = std::exchange(next_names_, nullptr);
  inner->locals.assign(code->nlocalsplus, nullptr);
  inner->stack.reserve(code->stacksize);
  inner->caller = frame;
  inner->line = function->code->co_firstlineno;
  bind(*this, function, *code, args, *inner);
  if (code->flags & CO_GENERATOR) {
    // Whoever asks it for items stands above it, not this call.
    inner->continuation = Continuation::Opaque;
    return make_generator(*this, std::move(inner));
  }
  if (code->is_generator_like()) throw Break{BreakId::generator, "a coroutine"};
  return run_frame(*inner);
}

}  // namespace stator::capture
