#include "capture/interpreter/calls/known_code.h"

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/keep_first.h"

namespace stator::capture {
namespace {

Value* free_variable(Interpreter& in, FunctionValue* function, const char* name) {
  in.open_closure(function);
  Ref names = Ref::steal(PyCode_GetFreevars(function->code));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), name) == 0)
      if (Value* value = load_cell(in, function->closure[i])) return value;
  throw Break{BreakId::internal, std::string("a closure without ") + name};
}

/// A wrapper that only prevents recursion or disables another compiler: calls what it wraps.
template <const char* const& name>
Value* call_wrapped(Interpreter& in, FunctionValue* function, CallArgs& args) {
  return in.call(free_variable(in, function, name), std::move(args));
}
const char* const kFn = "fn";
const char* const kUserFunction = "user_function";

/// functools.singledispatch: reads the registry; the cache in front of it only saves time.
Value* dispatch(Interpreter& in, FunctionValue* function, CallArgs& args) {
  Value* registry = free_variable(in, function, "registry");
  Value* cls = args.positional.at(0);
  if (DictValue* table = in.dict_part(registry))
    if (Value* found = in.dict_get(table, cls)) return found;
  static PyObject* const find = known_object("functools._find_impl");
  return in.call(in.wrap(find, in.guards.sources().pinned(find, "functools._find_impl")), arguments({cls, registry}));
}

/// It changes the classes of the module and of its parameters, once in their lives.
Value* break_at_lazy_module(Interpreter&, FunctionValue*, CallArgs&) {
  throw Break{BreakId::mutation, "a lazy module makes its parameters"};
}

struct Row {
  const char* function;                      // path of the function that has the code
  std::initializer_list<const char*> inner;  // names of the nested code objects that lead to it
  KnownCode code;
};

PyCodeObject* inner_code(PyObject* code, const char* name) {
  PyObject* consts = reinterpret_cast<PyCodeObject*>(code)->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(consts); ++i) {
    auto* candidate = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(consts, i));
    if (PyCode_Check(candidate) && PyUnicode_CompareWithASCIIString(candidate->co_name, name) == 0) return candidate;
  }
  return nullptr;
}

std::unordered_map<PyCodeObject*, KnownCode> find_codes() {
  const Row rows[] = {
      {"torch._compile._disable_dynamo", {"inner"}, call_wrapped<kFn>},
      {"dataclasses._recursive_repr", {"wrapper"}, call_wrapped<kUserFunction>},
      {"reprlib.recursive_repr", {"decorating_function", "wrapper"}, call_wrapped<kUserFunction>},
      {"functools.singledispatch", {"dispatch"}, dispatch},
      {"torch.nn.modules.lazy.LazyModuleMixin._infer_parameters", {}, break_at_lazy_module},
  };
  std::unordered_map<PyCodeObject*, KnownCode> found;
  for (const Row& row : rows) {
    PyObject* maker = known_object(row.function);
    PyObject* code = maker && PyFunction_Check(maker) ? PyFunction_GET_CODE(maker) : nullptr;
    for (const char* name : row.inner) code = code ? reinterpret_cast<PyObject*>(inner_code(code, name)) : nullptr;
    if (code) found.emplace(reinterpret_cast<PyCodeObject*>(code), row.code);
  }
  return found;
}

}  // namespace

KnownCode known_code(PyCodeObject* code) {
  using Codes = const std::unordered_map<PyCodeObject*, KnownCode>;
  static Codes* made = nullptr;
  Codes& codes = *keep_first(made, [] { return std::make_unique<Codes>(find_codes()); });
  auto found = codes.find(code);
  return found == codes.end() ? nullptr : found->second;
}

}  // namespace stator::capture
