// Models of built-in functions and classes.
#include "capture/guards/literals.h"
#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/containers/sorting.h"
#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/iteration.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/deferred_calls.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/tensor_items.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

Value* model_repr(Interpreter& in, CallArgs& args) { return in.format(args.positional[0], 2, nullptr); }

/// The length of a dict that each call brings, or of a list whose length changes from call to call, that the program
/// did not change: an int that is guarded, or an input of the graph if it varies. Null for other values.
Value* external_length(Interpreter& in, Value* value) {
  auto* dict = as<DictValue>(value);
  auto* list = as<ObjectValue>(value);
  PyObject* object = dict && dict->type == &PyDict_Type && !dict->mutated && !dict->is_globals ? dict->external.get()
                     : list && list->type == &PyList_Type                                      ? list->object.get()
                                                                                               : nullptr;
  if (!object || !value->source || (dict && !is_per_call(*value->source))) return nullptr;
  if (std::any_of(in.effects.begin(), in.effects.end(), [&](const Effect& effect) { return effect.target == value; }))
    return nullptr;
  const Ref length = Ref::steal(PyLong_FromSsize_t(dict ? PyDict_GET_SIZE(object) : PyList_GET_SIZE(object)));
  return in.wrap(length.get(), in.guards.sources().child(value->source, SourceKind::Length, 0, nullptr, length.get()));
}

Value* model_len(Interpreter& in, CallArgs& args) {
  auto* tensor = as<TensorValue>(args.positional[0]);
  if (tensor && !is_customised(in, tensor, "__len__")) return tensor_length(in, tensor);
  if (args.positional[0]->kind == Kind::Text)
    if (Value* length = deferred_call(in, known_object("builtins.len"), args)) return length;
  if (Value* length = external_length(in, args.positional[0])) return length;
  auto length = in.length_of(args.positional[0]);
  if (!length)
    in.raise(PyExc_TypeError,
             std::string("object of type '") + in.type_of(args.positional[0])->tp_name + "' has no len()");
  return in.integer(*length);
}

Value* model_isinstance(Interpreter& in, CallArgs& args) {
  return in.boolean(in.is_instance(args.positional[0], args.positional[1]));
}
Value* model_issubclass(Interpreter& in, CallArgs& args) {
  Ref cls = known_classes(in, args.positional[0]), of = known_classes(in, args.positional[1]);
  auto* literal = as<ConstantValue>(args.positional[0]);
  if (literal && literal->literal && is_literal(literal->object.get()) && of && Py_TYPE(of.get()) == &PyType_Type)
    in.raise(PyExc_TypeError, "issubclass() arg 1 must be a class");
  if (!cls || !of || !PyType_Check(cls.get()))
    throw Break{BreakId::unknown_call, "issubclass of something that is not a class"};
  if (is_literal(of.get()) && !PyTuple_Check(of.get()))
    in.raise(PyExc_TypeError, "issubclass() arg 2 must be a class, a tuple of classes, or a union");
  in.guards.add_class(cls.as<PyTypeObject>());
  return in.boolean(is_subclass(in, cls.as<PyTypeObject>(), of.get()));
}
Value* model_callable(Interpreter& in, CallArgs& args) { return in.boolean(is_callable(in, args.positional[0])); }

Ref attribute_name(Interpreter& in, Value* value) {
  PyObject* name = in.constant_of(value);
  if (!name) throw Break{BreakId::unknown_object, "an attribute name that is not known"};
  if (!PyUnicode_Check(name))
    in.raise(PyExc_TypeError, std::string("attribute name must be string, not '") + Py_TYPE(name)->tp_name + "'");
  Ref interned = Ref::borrow(name);
  PyObject* raw = interned.release();
  PyUnicode_InternInPlace(&raw);
  return Ref::steal(raw);
}
Value* model_getattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, args.positional[1]);
  if (args.positional.size() < 3) return in.get_attr(args.positional[0], name.get());
  Value* found = attribute_or_null(in, args.positional[0], name.get());
  return found ? found : args.positional[2];
}
Value* model_hasattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, args.positional[1]);
  return in.boolean(attribute_or_null(in, args.positional[0], name.get()) != nullptr);
}
Value* model_setattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, args.positional[1]);
  in.set_attr(args.positional[0], name.get(), args.positional[2]);
  return in.none();
}
Value* model_delattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, args.positional[1]);
  in.del_attr(args.positional[0], name.get());
  return in.none();
}

Value* model_iter(Interpreter& in, CallArgs& args) {
  if (args.positional.size() == 2) {
    if (!is_callable(in, args.positional[0])) {
      // The message depends on the CPython version, so the real function raises it.
      Ref::steal(PyObject_CallFunctionObjArgs(known_object("builtins.iter"), Py_None, Py_None, nullptr));
      raise_current(in);
    }
    return in.arena.make<CallIterator>(args.positional[0], args.positional[1]);
  }
  return in.iterate(args.positional[0]);
}
Value* model_next(Interpreter& in, CallArgs& args) {
  Value *iterator = args.positional[0], *item = nullptr;
  in.effects.refuse_frozen(iterator);
  // Without a default, the StopIteration that the iterator itself raises must reach the program.
  if (args.positional.size() > 1)
    item = in.next(iterator);
  else if (iterator->kind == Kind::Iterator)
    item = static_cast<IteratorValue*>(iterator)->next(in);
  else
    item = call_next(in, iterator);
  if (item) return item;
  if (args.positional.size() > 1) return args.positional[1];
  auto* generator = dynamic_cast<GeneratorValue*>(args.positional[0]);
  raise_stop_iteration(in, generator ? std::exchange(generator->result, nullptr) : nullptr);
}

Value* model_any(Interpreter& in, CallArgs& args) {
  Value* iterator = in.iterate(args.positional[0]);
  while (Value* item = in.next(iterator))
    if (in.truth(item)) return in.boolean(true);
  return in.boolean(false);
}
Value* model_all(Interpreter& in, CallArgs& args) {
  Value* iterator = in.iterate(args.positional[0]);
  while (Value* item = in.next(iterator))
    if (!in.truth(item)) return in.boolean(false);
  return in.boolean(true);
}
bool is_float_number(Interpreter& in, Value* value) {
  return is_symbolic_number(value) && in.type_of(value) == &PyFloat_Type;
}

/// Whether a literal is a number whose addition to others cannot raise.
bool adds_without_error(PyObject* literal) {
  if (!literal || PyFloat_CheckExact(literal) || PyComplex_CheckExact(literal)) return literal;
  int overflow = 0;
  if (PyLong_CheckExact(literal) || PyBool_Check(literal)) PyLong_AsLongAndOverflow(literal, &overflow);
  return (PyLong_CheckExact(literal) || PyBool_Check(literal)) && overflow == 0;
}

Value* model_sum(Interpreter& in, CallArgs& args) {
  Value* start = argument(args, 1, "start");
  Value* total = start ? start : in.integer(0);
  // The plan, or the graph, adds ints that vary.
  auto varies = [&](Value* value) { return varying_as(in, value, &PyLong_Type) != nullptr; };
  PyObject* first = start && start->kind == Kind::Constant && !varies(start) ? in.constant_of(start) : nullptr;
  if (first && PyUnicode_Check(first)) in.raise(PyExc_TypeError, "sum() can't sum strings [use ''.join(seq) instead]");
  if (first && PyBytes_Check(first)) in.raise(PyExc_TypeError, "sum() can't sum bytes [use b''.join(seq) instead]");
  Value* iterator = in.iterate(args.positional[0]);
  size_t count = 0;
  auto next = [&] {
    refuse_endless(count++);
    return in.next(iterator);
  };
  Value* item = next();
  // Float sums differ by CPython version (3.12 compensates rounding errors), so the real `sum` adds a run of literals.
  // Items are taken from the iterator earlier than by the real one, which is not observable for literals.
  std::vector<Value*> numbers;
  auto adds = [&](Value* value) { return !varies(value) && adds_without_error(in.literal_of(value).get()); };
  if (adds(total))
    for (; item && adds(item); item = next()) numbers.push_back(item);
  if (!numbers.empty())
    total = call_literal(in, known_object("builtins.sum"), arguments({in.list(std::move(numbers)), total}));
  // Add the others one by one: an item is taken only after the previous one was added.
  for (; item; item = next()) {
    if (is_float_number(in, item)) needs_number(in, item, "in a sum of floats");
    total = in.binary(pycompat::kAdd, total, item);
  }
  return total;
}

/// Replaces two numbers of one class by graph numbers, if one varies.
void number_pair(Interpreter& in, Value*& a, Value*& b) {
  auto is_plain = [](const Value* value) { return value->kind == Kind::Constant || value->kind == Kind::Opaque; };
  if (!is_plain(a) && !is_plain(b)) return;
  Value *x = a, *y = b;
  if (is_symbolic_number(x) || is_symbolic_number(y)) {
    number_operands(in, a, b);
  } else if (make_numbers(in, x, y) && in.type_of(x) == in.type_of(y)) {
    a = x;
    b = y;
  }
}

Value* extreme(Interpreter& in, CallArgs& args, int op, const char* name) {
  bool several = args.positional.size() > 1;
  Value *key = args.keyword("key"), *fallback = args.keyword("default");
  if (several && fallback)
    in.raise(PyExc_TypeError, std::string("Cannot specify a default for ") + (op == Py_GT ? "max" : "min") +
                                  "() with multiple positional arguments");
  if (key && in.is_same(key, in.none())) key = nullptr;
  // An item is taken only after the previous one was compared.
  Value* iterator = in.iterate(several ? in.tuple(args.positional) : args.positional[0]);
  Value *best = nullptr, *best_rank = nullptr;
  size_t count = 0;
  while (Value* item = in.next(iterator)) {
    refuse_endless(count++);
    Value* candidate = key ? in.call(key, arguments({item})) : item;
    if (best && !key) number_pair(in, best, item);
    const bool has_symbol = best && (is_symbolic_number(best) || is_symbolic_number(item));
    if (has_symbol && !key && in.type_of(best) == in.type_of(item))
      item = candidate = number_result(in, op == Py_GT ? "max" : "min", best, item);
    else if (best && !in.truth(in.compare(op, candidate, best_rank)))
      continue;
    best = item;
    best_rank = candidate;
  }
  if (best) return best;
  return fallback ? fallback : call_literal(in, known_object(name), arguments({in.tuple({})}));
}
Value* model_max(Interpreter& in, CallArgs& args) { return extreme(in, args, Py_GT, "builtins.max"); }
Value* model_min(Interpreter& in, CallArgs& args) { return extreme(in, args, Py_LT, "builtins.min"); }

/// A function that calls one special method. Literals go to the real function, other values to their own method.
Value* by_method(Interpreter& in, CallArgs& args, const char* method, const char* function) {
  Value* value = args.positional[0];
  if (value->kind == Kind::Constant) return call_literal(in, known_object(function), args);
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  if (!look_up(in.type_of(value), name.get())) return call_literal(in, known_object(function), args);
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  return in.call(type_method(in, value, name.get()), std::move(rest));
}
Value* model_abs(Interpreter& in, CallArgs& args) {
  if (Value* number = graph_number(in, args.positional[0]); is_symbolic_number(number))
    return number_result(in, "abs", number);
  return by_method(in, args, "__abs__", "builtins.abs");
}
Value* model_round(Interpreter& in, CallArgs& args) {
  Value* number = in.options.for_python_backend ? args.positional[0] : graph_number(in, args.positional[0]);
  if (is_symbolic_number(number) && in.type_of(number) == &PyFloat_Type) {
    Value* digits = argument(args, 1, "ndigits");
    if (!digits || in.is_same(digits, in.none())) return number_result(in, "round", number);
    constexpr long kMostDigits = 15;  // as shapes::Op::RoundDigits has it
    PyObject* count = in.type_of(digits) == &PyLong_Type ? in.constant_of(digits) : nullptr;
    int overflow = 0;
    const long places = count ? PyLong_AsLongAndOverflow(count, &overflow) : -1;
    if (places < 0 || places > kMostDigits) needs_number(in, number, "rounded to such a number of digits");
    return number_result(in, "round_digits", number, digits);
  }
  Value* digits = argument(args, 1, "ndigits");
  if (is_symbolic_number(number) && (!digits || in.is_same(digits, in.none()))) return number_result(in, "int", number);
  return by_method(in, args, "__round__", "builtins.round");
}
Value* model_divmod(Interpreter& in, CallArgs& args) {
  Value *a = args.positional[0], *b = args.positional[1];
  if (!make_numbers(in, a, b) && a->kind == Kind::Constant && b->kind == Kind::Constant)
    return call_literal(in, known_object("builtins.divmod"), args);
  auto is_numeric = [](const Value* value) {
    return is_symbolic_number(value) || value->kind == Kind::Constant || value->kind == Kind::Array;
  };
  if (!is_numeric(a) || !is_numeric(b)) throw Break{BreakId::unknown_call, "divmod of something that is not a number"};
  Value* quotient = in.binary(pycompat::kFloorDivide, a, b);
  return in.tuple({quotient, in.binary(pycompat::kRemainder, a, b)});
}
Value* model_pow(Interpreter& in, CallArgs& args) {
  if (args.positional.size() == 2 && args.keywords.empty())
    return in.binary(pycompat::kPower, args.positional[0], args.positional[1]);
  return call_literal(in, known_object("builtins.pow"), args);
}
Value* model_hash(Interpreter& in, CallArgs& args) {
  bool exact = true;
  Py_hash_t hash = key_hash(in, args.positional[0], &exact);
  if (!exact) throw Break{BreakId::unknown_call, "hash() of an object that is hashed by its address"};
  return in.integer(hash);
}
Value* model_format(Interpreter& in, CallArgs& args) {
  Value* spec = at_or_null(args, 1);
  if (spec && spec->kind != Kind::Text && in.type_of(spec) != &PyUnicode_Type)
    throw Break{BreakId::raises, "format() with a spec that is not a str"};
  return in.format(args.positional[0], 0, spec);
}
Value* model_ascii(Interpreter& in, CallArgs& args) { return in.format(args.positional[0], 3, nullptr); }

Value* model_sorted(Interpreter& in, CallArgs& args) {
  Value* list = in.list(unpack_hinted(in, args.positional[0]));
  sort_list(in, as_sequence(list), args.keyword("key"), args.keyword("reverse"));
  return list;
}

Value* model_vars(Interpreter& in, CallArgs& args) {
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  Value* found = in.find_attr(args.positional[0], name);
  if (!found) in.raise(PyExc_TypeError, "vars() argument must have __dict__ attribute");
  return found;
}
Value* model_locals(Interpreter& in, CallArgs&) {
  Frame& f = *in.frames.current();
  if (f.names) return f.names;
  // All calls in one frame return the same dict, updated by each call.
  if (!f.locals_dict) f.locals_dict = in.dict();
  for (int slot = 0; slot < f.code->nlocalsplus; ++slot) {
    Value* value = in.local(f, slot);
    if (auto* cell = as<CellValue>(value)) value = load_cell(in, cell);
    ConstantValue* name = in.constant(PyTuple_GET_ITEM(f.code->localsplus_names, slot));
    if (value)
      in.dict_set(f.locals_dict, name, value);
    else
      in.dict_delete(f.locals_dict, name);
  }
  return f.locals_dict;
}
Value* model_vars_or_locals(Interpreter& in, CallArgs& args) {
  return args.positional.empty() ? model_locals(in, args) : model_vars(in, args);
}
/// id() of an instance that lives on, whose identity is then guarded, or of a constant.
Value* model_id(Interpreter& in, CallArgs& args) {
  Value* value = args.positional[0];
  auto* object = as<ObjectValue>(value);
  PyObject* known = object && object->through_dict ? in.need_identity(object) : in.constant_of(value);
  bool is_known = known && (object || PyType_Check(known) || PyModule_Check(known)) && !in.prototypes.find(known);
  if (!is_known) throw Break{BreakId::unknown_call, "id()"};
  return in.constant(Ref::steal(PyLong_FromVoidPtr(known)));
}

/// eval() of an expression in the caller's frame. Explicit globals and locals are not supported: names would be looked
/// up there.
Value* model_eval(Interpreter& in, CallArgs& args) {
  PyObject* text = in.constant_of(args.positional[0]);
  if (!text || !PyUnicode_CheckExact(text))
    throw Break{BreakId::unknown_call, "eval() of something that is not a known str"};
  const char* chars = PyUnicode_AsUTF8(text);
  while (chars && (*chars == ' ' || *chars == '\t')) ++chars;
  Ref code = chars ? Ref::steal(Py_CompileString(chars, "<string>", Py_eval_input)) : Ref();
  if (!code) {
    PyErr_Clear();
    throw Break{BreakId::raises, "eval() of text that is not an expression"};
  }
  auto* function = in.arena.make<FunctionValue>();
  function->code = in.constant(std::move(code))->object.as<PyCodeObject>();
  function->globals = in.frames.current()->globals;
  function->globals_source = in.frames.current()->globals_source;
  return in.call_function(function, {});
}
Value* model_print(Interpreter&, CallArgs&) { throw Break{BreakId::unknown_call, "print()"}; }
Value* model_globals(Interpreter& in, CallArgs&) {
  Value* dict = in.wrap(in.frames.current()->globals, in.frames.current()->globals_source);
  static_cast<DictValue*>(dict)->is_globals = true;
  return dict;
}

constexpr ModelRow kFunctions[] = {
    {"builtins.len", model_len, 1, 1},
    {"builtins.isinstance", model_isinstance, 2, 2},
    {"builtins.issubclass", model_issubclass, 2, 2},
    {"builtins.callable", model_callable, 1, 1},
    {"builtins.getattr", model_getattr, 2, 3},
    {"builtins.hasattr", model_hasattr, 2, 2},
    {"builtins.setattr", model_setattr, 3, 3},
    {"builtins.delattr", model_delattr, 2, 2},
    {"builtins.iter", model_iter, 1, 2},
    {"builtins.next", model_next, 1, 2},
    {"builtins.any", model_any, 1, 1},
    {"builtins.all", model_all, 1, 1},
    {"builtins.sum", model_sum, 1, 2, "start"},
    {"builtins.max", model_max, 1, ModelRow::kAny, "key default"},
    {"builtins.min", model_min, 1, ModelRow::kAny, "key default"},
    {"builtins.abs", model_abs, 1, 1},
    {"builtins.round", model_round, 1, 2, "ndigits"},
    {"builtins.divmod", model_divmod, 2, 2},
    {"builtins.pow", model_pow, 2, 3, "mod"},
    {"builtins.hash", model_hash, 1, 1},
    {"builtins.sorted", model_sorted, 1, 1, "key reverse"},
    {"builtins.repr", model_repr, 1, 1},
    {"builtins.ascii", model_ascii, 1, 1},
    {"builtins.format", model_format, 1, 2},
    {"builtins.id", model_id, 1, 1},
    {"builtins.eval", model_eval, 1, 1},
    {"builtins.print", model_print, 0, ModelRow::kAny, "*"},
    {"builtins.vars", model_vars_or_locals, 0, 1},
    {"builtins.locals", model_locals, 0, 0},
    {"builtins.globals", model_globals, 0, 0},
};

}  // namespace

std::span<const ModelRow> builtin_function_models() { return kFunctions; }

}  // namespace stator::capture
