// Models of standard-library callables.
#include "capture/guards/literals.h"
#include "capture/interpreter/classes/made_classes.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

Value* partial(Interpreter& in, CallArgs& args) {
  auto* made = in.arena.make<ObjectValue>(partial_type());
  Value* function = args.positional[0];
  if (!is_callable(in, function)) in.raise(PyExc_TypeError, "the first argument must be callable");
  static PyObject* const func = PyUnicode_InternFromString("func");
  static PyObject* const bound = PyUnicode_InternFromString("args");
  static PyObject* const keywords = PyUnicode_InternFromString("keywords");
  DictValue* named = in.dict();
  std::vector<Value*> given;
  // A partial of a plain partial without attributes is flattened into one.
  if (auto* inner = as<ObjectValue>(function); inner && inner->type == partial_type()) {
    const bool is_bare = !inner->object || stator_is_bare(inner->object.get());
    if (is_bare && inner->source) in.guards.add(inner->source, FactKind::NoAttributes);
    if (!inner->own && is_bare) {
      function = in.get_attr(inner, func);
      given = in.unpack(in.get_attr(inner, bound));
      for (auto& [key, value] : mapping_items(in, in.get_attr(inner, keywords))) in.dict_set(named, key, value);
    }
  }
  given.insert(given.end(), args.positional.begin() + 1, args.positional.end());
  for (auto& [name, value] : args.keywords) in.dict_set(named, in.constant(name), value);
  made->attributes.push_back({Ref::borrow(func), function});
  made->attributes.push_back({Ref::borrow(bound), in.tuple(std::move(given))});
  made->attributes.push_back({Ref::borrow(keywords), named});
  return made;
}

Value* reduce(Interpreter& in, CallArgs& args) {
  Value* iterator = in.iterate(args.positional[1]);
  Value* total = args.positional.size() > 2 ? args.positional[2] : in.next(iterator);
  if (!total) in.raise(PyExc_TypeError, "reduce() of empty iterable with no initial value");
  while (Value* item = in.next(iterator)) {
    CallArgs two;
    two.positional = {total, item};
    total = in.call(args.positional[0], std::move(two));
  }
  return total;
}

/// typing.cast and similar functions return their second argument.
Value* second(Interpreter&, CallArgs& args) { return args.positional[1]; }

/// A real function with the code and defaults of one that the program made; null if a default is not a literal.
Ref real_function(Interpreter& in, FunctionValue* function) {
  Ref made = Ref::steal(PyFunction_New(reinterpret_cast<PyObject*>(function->code), function->globals));
  Ref defaults = function->defaults ? in.literal_of(function->defaults) : Ref();
  Ref keywords = function->kwdefaults ? in.literal_of(function->kwdefaults) : Ref();
  if ((function->defaults && !defaults) || (function->kwdefaults && !keywords) || function->annotations ||
      function->own || !function->fields.empty())
    return {};
  if (defaults) PyFunction_SetDefaults(made.get(), defaults.get());
  if (keywords) PyFunction_SetKwDefaults(made.get(), keywords.get());
  return made;
}

/// Guards the values of all defaults of an external function.
static void guard_defaults(Interpreter& in, FunctionValue* function) {
  auto guard = [&](SourceKind kind, int32_t index, PyObject* name, PyObject* held) {
    Source* source = in.guards.sources().child(function->source, kind, index, name, held);
    in.guards.add(source, is_literal(held) ? FactKind::Equals : FactKind::Identity, held);
  };
  PyObject* object = function->function.get();
  if (PyObject* defaults = PyFunction_GET_DEFAULTS(object))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(defaults); ++i)
      guard(SourceKind::Default, static_cast<int32_t>(i), nullptr, PyTuple_GET_ITEM(defaults, i));
  PyObject *defaults = PyFunction_GET_KW_DEFAULTS(object), *name, *held;
  for (Py_ssize_t position = 0; defaults && PyDict_Next(defaults, &position, &name, &held);)
    guard(SourceKind::KwDefault, 0, name, held);
}

/// inspect.signature: depends only on the function's code and defaults, which are guarded.
Value* signature(Interpreter& in, CallArgs& args) {
  Value* target = args.positional[0];
  Value* function = target->kind == Kind::Method ? as<MethodValue>(target)->function : target;
  auto* known = as<FunctionValue>(function);
  Ref callable = known && !known->function ? real_function(in, known) : known ? known->function : Ref();
  if (!callable) throw Break{BreakId::unknown_call, "inspect.signature"};
  if (known->function) {
    in.guards.add(known->source, FactKind::Identity, known->function.get());
    in.guards.add(known->source, FactKind::Code, PyFunction_GET_CODE(known->function.get()),
                  reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(known->function.get())));
    guard_defaults(in, known);
  }
  if (target->kind == Kind::Method) callable = Ref::steal(PyMethod_New(callable.get(), Py_None));
  Ref made = Ref::steal(PyObject_CallOneArg(known_object("inspect.signature"), callable.get()));
  if (!made) throw Break{BreakId::raises, take_error_text()};
  return in.wrap(made.get(), in.guards.sources().pinned(made.get(), "signature"));
}

Value* exc_info(Interpreter& in, CallArgs&) {
  Value* handled = visible_exception(in);
  if (!handled) return in.tuple({in.none(), in.none(), in.none()});
  return in.tuple({in.constant(reinterpret_cast<PyObject*>(in.type_of(handled))), handled, unseen_traceback(in)});
}
/// traceback.clear_frames: does nothing for a traceback of this capture, whose frames are not real.
Value* clear_frames(Interpreter& in, CallArgs& args) {
  auto* trace = as<ObjectValue>(args.positional[0]);
  bool is_unseen = trace && !trace->object && trace->type == &PyTraceBack_Type;
  if (!is_unseen && !in.is_same(args.positional[0], in.none()))
    throw Break{BreakId::unknown_call, "traceback.clear_frames"};
  return in.none();
}
Value* current_exception(Interpreter& in, CallArgs&) {
  Value* handled = visible_exception(in);
  return handled ? handled : in.none();
}

/// collections.namedtuple: the class made here is the prototype of the classes that the program makes in each run.
Value* named_tuple(Interpreter& in, CallArgs& args) {
  LiteralArgs given = literal_args(in, args, true);
  if (!given.positional)
    throw Break{BreakId::unknown_call, "collections.namedtuple with an argument that is not a literal"};
  if (!args.keyword("module")) {
    PyObject* module = PyDict_GetItemString(in.frames.current()->globals, "__name__");
    args.keywords.emplace_back(Ref::steal(PyUnicode_InternFromString("module")),
                               in.constant(module ? module : Py_None));
  }
  return make_by_call(in, Ref::borrow(known_object("collections.namedtuple")), args);
}

constexpr ModelRow kRows[] = {
    {"functools.partial", partial, 1, ModelRow::kAny, "*"},
    {"functools.reduce", reduce, 2, 3},
    {"collections.namedtuple", named_tuple, 2, 2, "rename defaults module"},
    {"typing.cast", second, 2, 2},
    {"inspect.signature", signature, 1, 1},
    {"sys.exc_info", exc_info, 0, 0},
    {"traceback.clear_frames", clear_frames, 1, 1},
    {"sys.exception", current_exception, 0, 0},
};

}  // namespace

std::span<const ModelRow> library_models() { return kRows; }

}  // namespace stator::capture
