#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

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
/// A known int value as an index; breaks for anything else.
Py_ssize_t index_of(Interpreter& in, Value* value);
/// Calls the real callable on literals. Returns its result as a value, or raises its exception in the program. Breaks,
/// naming `callable`, if an argument is not a literal. If it only iterates over its arguments, iterators and views are
/// turned into lists first.
Value* call_literal(Interpreter& in, PyObject* callable, const CallArgs& args);
/// Positional and keyword arguments as real objects; null if one is not a literal. `lists`: iterators and views among
/// the positional arguments become lists.
struct LiteralArgs {
  Ref positional, keywords;
};
LiteralArgs literal_args(Interpreter& in, const CallArgs& args, bool lists = false);
std::string name_of(PyObject* callable);
/// A str of the program in UTF-8, for messages.
std::string name_text(PyObject* name);
[[noreturn]] void raise_key_error(Interpreter& in, Value* key);
[[noreturn]] void raise_stop_iteration(Interpreter& in, Value* value = nullptr);

}  // namespace stator::capture
