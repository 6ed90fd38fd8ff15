#pragma once

#include <span>

#include "capture/interpreter/interpreter.h"

/// Native stand-ins for C functions, methods and classes, in tables.
namespace stator::capture {

using Model = Value* (*)(Interpreter&, CallArgs&);

struct ModelRow {
  const char* path;  // e.g. "builtins.dict.get"
  Model model;
  // How many positional arguments it takes (`self` counts), and which keywords: names with spaces between, or "*".
  // A call that does not fit is left to the real one, which knows how to complain.
  int least = 0, most = kAny;
  const char* keywords = "";
  // A function written in Python that asks for `__torch_function__` itself: overridden, it is run instead of the model.
  bool asks = false;

  static constexpr int kAny = 1 << 20;
};

/// The row of a callable object, or null.
const ModelRow* model_of(PyObject* callable);
/// Runs a model if the call fits its row. Throws Break{raises} otherwise.
Value* call_model(Interpreter& in, const ModelRow& row, CallArgs& args);

/// Tables are joined at the first capture; a path that does not exist in this version is left out.
#define STATOR_MODEL_TABLES(table)                                                                                 \
  table(builtin_function) table(builtin_type) table(list) table(dict) table(set) table(deque) table(object)        \
      table(iterator) table(itertools) table(operator) table(library) table(copy) table(torch) table(autograd)     \
          table(transform) table(control) table(array) table(descriptor) table(overrides) table(class) table(weak) \
              table(warning)
#define STATOR_MODEL_TABLE(name) std::span<const ModelRow> name##_models();
STATOR_MODEL_TABLES(STATOR_MODEL_TABLE)
#undef STATOR_MODEL_TABLE

/// How a C callable without a model may be called. `Transform`: like `Torch`, and it may open or close a level.
/// `Asked`: it tells of the process or thread, and a guard asks it again.
enum class CallableKind : uint8_t { Unknown, Torch, Pure, Ambient, Transform, Asked };
CallableKind kind_of_callable(PyObject* callable);
/// Whether it is a binding of torch's that a `__torch_function__` can override.
bool is_overridable(PyObject* callable);

// ---- what models share

bool is_callable(Interpreter& in, Value* value);
/// A positional argument, or null.
inline Value* at_or_null(const CallArgs& args, size_t index) {
  return index < args.positional.size() ? args.positional[index] : nullptr;
}
/// An argument by position or name, or null.
inline Value* argument(const CallArgs& args, size_t index, const char* name) {
  Value* given = at_or_null(args, index);
  return given ? given : args.keyword(name);
}
CallArgs arguments(std::vector<Value*> positional);
/// An int of the program as an index; breaks for anything else.
Py_ssize_t index_of(Interpreter& in, Value* value);
/// The real callable on literals: the result as a value, or its exception raised. Breaks naming `callable` if an
/// argument is no literal; where it takes iterables for their items alone, iterators and views are listed first.
Value* call_literal(Interpreter& in, PyObject* callable, const CallArgs& args);
/// Positional and keyword arguments as real objects; empty where one is no literal. `lists`: iterators and views among
/// the positional ones become lists.
struct LiteralArgs {
  Ref positional, keywords;
};
LiteralArgs literal_args(Interpreter& in, const CallArgs& args, bool lists = false);
std::string name_of(PyObject* callable);
[[noreturn]] void raise_key_error(Interpreter& in, Value* key);
[[noreturn]] void raise_stop_iteration(Interpreter& in, Value* value = nullptr);

}  // namespace stator::capture
