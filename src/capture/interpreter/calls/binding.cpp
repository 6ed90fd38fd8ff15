#include "capture/interpreter/calls/binding.h"

#include <algorithm>

#include "capture/interpreter/calls/argument_errors.h"
#include "capture/interpreter/protocol/arguments.h"

namespace stator::capture {
namespace {

/// A default as a value: an item of the tuple that the program made, or read from the external function by its source.
Value* default_at(Interpreter& in, FunctionValue* function, size_t index) {
  if (!function->function) return in.item(as_sequence(function->defaults), index);
  PyObject* defaults = PyFunction_GET_DEFAULTS(function->function.get());
  PyObject* object = PyTuple_GET_ITEM(defaults, index);
  return in.wrap(object, in.guards.sources().child(function->source, SourceKind::Default, static_cast<int32_t>(index),
                                                   nullptr, object));
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
  return in.wrap(object, in.guards.sources().child(function->source, SourceKind::KwDefault, 0, name, object));
}

[[noreturn]] void bad_call(Interpreter& in, FunctionValue* function, const pycompat::Code& code, const CallArgs& args) {
  std::vector<PyObject*> keyword_defaults;
  for (int i = code.argcount; i < code.argcount + code.kwonlyargcount; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code.localsplus_names, i);
    const bool has_one = keyword_default(in, function, name) != nullptr;
    if (has_one) keyword_defaults.push_back(name);
    // No guard says that an external function has no such default.
    const bool is_given = std::any_of(args.keywords.begin(), args.keywords.end(),
                                      [&](auto& keyword) { return PyUnicode_Compare(keyword.first.get(), name) == 0; });
    if (!has_one && !is_given && function->function)
      throw Break{BreakId::raises, name_of(function->function.get()) + "() called with wrong arguments"};
  }
  static PyObject* const qualified = PyUnicode_InternFromString("__qualname__");
  Ref name = in.literal_of(in.get_attr(function, qualified));
  if (!name || !PyUnicode_Check(name.get())) throw Break{BreakId::raises, "a function called with wrong arguments"};
  raise_unbound(in, code, name.get(), default_count(in, function), keyword_defaults, args);
}

}  // namespace

void bind_arguments(Interpreter& in, FunctionValue* function, const pycompat::Code& code, CallArgs& args,
                    Frame& frame) {
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

}  // namespace stator::capture
