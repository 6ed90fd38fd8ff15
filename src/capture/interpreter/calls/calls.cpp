// Calls: what a callee of each kind does, and inlining of Python functions.
#include "capture/guards/break_policy.h"
#include "capture/interpreter/calls/allowed.h"
#include "capture/interpreter/calls/binding.h"
#include "capture/interpreter/calls/constant_calls.h"
#include "capture/interpreter/calls/known_code.h"
#include "capture/interpreter/calls/marked_functions.h"
#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/overrides.h"

namespace stator::capture {

namespace {

Value* call_partial(Interpreter& in, ObjectValue* partial, CallArgs args) {
  static PyObject* const func = PyUnicode_InternFromString("func");
  static PyObject* const bound = PyUnicode_InternFromString("args");
  static PyObject* const keywords = PyUnicode_InternFromString("keywords");
  auto part = [&](PyObject* name) -> Value* {
    if (Value** written = partial->find(name)) return *written;
    Ref object = Ref::steal(PyObject_GetAttr(partial->object.get(), name));
    return in.wrap(object.get(),
                   in.guards.sources().child(partial->source, SourceKind::Attribute, kClassField, name, object.get()));
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

/// Calls the Python function that torch.jit.script compiled and kept. Breaks where the two differ: a script converts an
/// int argument to the declared type.
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
    bool takes_int = !declared || declared == reinterpret_cast<PyObject*>(&PyLong_Type) ||
                     declared == reinterpret_cast<PyObject*>(&PyBool_Type);
    if (!takes_int && PyLong_Check(in.constant_of(value)))
      throw Break{BreakId::unknown_call, "a scripted function that is given an int for something else"};
  };
  for (size_t i = 0; i < args.positional.size() && i < static_cast<size_t>(code->co_argcount); ++i)
    if (args.positional[i]->kind == Kind::Constant)
      check(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(i)), args.positional[i]);
  for (auto& [parameter, value] : args.keywords)
    if (value->kind == Kind::Constant) check(parameter.get(), value);
  return in.call(original, std::move(args));
}

}  // namespace

Value* Interpreter::call_method(Value* self, const char* name, std::vector<Value*> positional) {
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  CallArgs args;
  args.positional = std::move(positional);
  return call(get_attr(self, key.get()), std::move(args));
}

Value* Interpreter::call(Value* callee, CallArgs args, CallMode mode) {
  for (;;) {
    callee = unproxied(*this, callee);
    // If the substitute breaks, the break is reported at this call, and the original runs: its frame is not resumable.
    if (Value* substitute = substitute_of(*this, callee))
      return call(substitute, std::move(args), {.break_is_error = mode.break_is_error});
    if (callee->kind != Kind::Method) break;
    auto* method = static_cast<MethodValue*>(callee);
    args.positional.insert(args.positional.begin(), method->self);
    callee = method->function;
  }
  switch (callee->kind) {
    case Kind::Function:
      return call_function(static_cast<FunctionValue*>(callee), std::move(args), mode);
    case Kind::Constant:
      return call_constant(*this, static_cast<ConstantValue*>(callee), args, mode);
    case Kind::Object: {
      auto* object = static_cast<ObjectValue*>(callee);
      if (object->type == partial_type()) return call_partial(*this, object, std::move(args));
      if (object->type == script_function_type()) return call_scripted(*this, object, std::move(args));
      if (is_transparent(object->type)) {
        static PyObject* const wrapped = PyUnicode_InternFromString("__wrapped__");
        Value* inner = get_attr(object, wrapped);
        Ref policy = Ref::steal(PyObject_GetAttrString(object->object.get(), "error_on_graph_break"));
        PyErr_Clear();
        if (policy && policy.get() != Py_None) mode.break_is_error = policy.get() == Py_True;
        // The function's own setting wins over that of a block around the call.
        std::optional<BreakPolicyScope> own;
        if (mode.break_is_error && break_policy()) own.emplace(*mode.break_is_error);
        return call(inner, std::move(args), mode);
      }
      if (object->object && is_numpy_callable(object->object.get()))
        return call_numpy(*this, object->object.get(), args);
      if (object->object && kind_of_callable(object->object.get()) == CallableKind::Torch)
        return call_torch(object->object.get(), args);
      if (object->object && object->source && marks.is_allowed(object->object.get())) {
        guards.add(object->source, FactKind::Identity, object->object.get());
        return call_torch(object->object.get(), args);
      }
      // `__call__` may itself be an instance with a `__call__`, and so on.
      Nesting nesting;
      static PyObject* const call_name = PyUnicode_InternFromString("__call__");
      Value* method = type_method(*this, callee, call_name);
      return call(method, std::move(args), mode);
    }
    case Kind::Tensor:
      raise(PyExc_TypeError, "'Tensor' object is not callable");
    case Kind::List:
    case Kind::Tuple:
    case Kind::Dict:
    case Kind::Set:
    case Kind::Slice:
    case Kind::Number:
    case Kind::Text:
    case Kind::View:
      raise(PyExc_TypeError, std::string("'") + type_of(callee)->tp_name + "' object is not callable");
    default:
      throw Break{BreakId::unknown_call, std::string("a call of a ") + type_of(callee)->tp_name};
  }
}

void Interpreter::open_closure(FunctionValue* function) {
  PyObject* closure = function->closure.empty() ? PyFunction_GET_CLOSURE(function->function.get()) : nullptr;
  Ref names = closure ? Ref::steal(PyCode_GetFreevars(function->code)) : Ref();
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    Source* source = guards.sources().child(function->source, SourceKind::Cell, static_cast<int32_t>(i), name, cell);
    function->closure.push_back(as<CellValue>(wrap(cell, source)));
  }
}

/// Guards that a later call finds a function that does the same: this one, if only a global variable or a class leads
/// to it, else any with the same code, and without the marks that change how a function is called.
static void guard_called(Interpreter& in, FunctionValue* function) {
  static PyObject* const marks[] = {PyUnicode_InternFromString("_torchdynamo_disable"),
                                    PyUnicode_InternFromString("_dynamo_forbidden"),
                                    PyUnicode_InternFromString("_dynamo_marked_constant")};
  PyObject* object = function->function.get();
  const Source* root = function->source;
  while (root->parent) root = root->parent;
  const SourceKind kind = function->source->kind;
  bool by_identity = root->kind == SourceKind::Pinned && kind != SourceKind::CellContents && kind != SourceKind::Item;
  for (PyObject* mark : marks) by_identity = by_identity || stator_instance_value(object, mark);
  if (by_identity) {
    in.guards.add(function->source, FactKind::Identity, object);
  } else {
    for (PyObject* mark : marks) in.guards.add(function->source, FactKind::NoAttribute, mark);
  }
  in.guards.add(function->source, FactKind::Code, PyFunction_GET_CODE(object),
                reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(object)));
}

Value* Interpreter::call_function(FunctionValue* function, CallArgs&& args, CallMode mode) {
  if (PyObject* object = function->function.get()) {
    auto guard_identity = [&] { guards.add(function->source, FactKind::Identity, object); };
    if (const ModelRow* row = model_of(object); row && !(row->asks && is_overridden(*this, args))) {
      guard_identity();
      if (Value* result = call_model(*this, *row, args)) return result;
    }
    const CallableKind kind = kind_of_callable(object);
    if (kind == CallableKind::Torch || kind == CallableKind::Pure || kind == CallableKind::Asked) guard_identity();
    if (kind == CallableKind::Torch) return call_torch(object, args);
    if (kind == CallableKind::Pure) return call_literal(*this, object, args);
    if (kind == CallableKind::Asked) return ask_again(*this, object, args);
    if (!function->guarded) {
      if (PyObject* original = unless_disabled(object)) {
        guard_identity();
        return call(wrap(original, guards.sources().pinned(original, "an optimizer's function")), std::move(args));
      }
      if (is_marked_constant(object)) return call_marked_constant(*this, function, args);
      guard_called(*this, function);
      function->guarded = true;
    }
    if (marks.is_allowed(function->function.get())) {
      const std::vector<PyCodeObject*>& nodes = options.as_nodes;
      if (std::find(nodes.begin(), nodes.end(), function->code) != nodes.end())
        return call_as_node(*this, function, args);
      if (options.for_python_backend)
        if (Value* made = try_as_node(*this, function, args)) return made;
    }
    open_closure(function);
  }
  if (KnownCode known = known_code(function->code)) return known(*this, function, args);
  const pycompat::Code* code = pycompat::decode(function->code);
  if (!code) {
    PyErr_Clear();
    throw Break{BreakId::internal, "bytecode of an unknown version"};
  }
  Frame* caller = frames.current();
  const bool is_generator = code->flags & CO_GENERATOR;
  // A generator's frame outlives this call.
  auto kept = is_generator ? std::make_unique<Frame>() : nullptr;
  Frame own;
  Frame& inner = kept ? *kept : own;
  inner.owner = this;
  inner.continuation = mode.continuation;
  inner.break_is_error = mode.break_is_error.value_or(caller->break_is_error);
  inner.code = code;
  inner.function = function;
  inner.globals = function->globals;
  inner.globals_source = function->globals_source;
  inner.builtins = caller->builtins;
  inner.names = mode.class_names;
  inner.locals.assign(code->nlocalsplus, nullptr);
  inner.stack.reserve(code->stacksize);
  inner.caller = caller;
  inner.line = function->code->co_firstlineno;
  bind_arguments(*this, function, *code, args, inner);
  if (is_generator) {
    // The code that iterates the generator will be its caller, not this call.
    inner.continuation = Continuation::Opaque;
    return make_generator(*this, std::move(kept));
  }
  if (code->is_generator_like()) throw Break{BreakId::generator, "a coroutine"};
  return run_frame(inner);
}

}  // namespace stator::capture
