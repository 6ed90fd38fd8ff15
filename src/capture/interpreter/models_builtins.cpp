// Models of built-in functions and classes.
#include "capture/guards/literals.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/iterators.h"
#include "capture/interpreter/known_types.h"

namespace stator::capture {
namespace {

Value* argument(Interpreter& in, const CallArgs& args, size_t index) {
  if (index >= args.positional.size()) throw Break{BreakId::raises, "a built-in called with too few arguments"};
  return args.positional[index];
}

/// The real class called on literals, for what only literals can be given to.
Value* call_literal(Interpreter& in, PyObject* callable, CallArgs& args) {
  Ref positional = Ref::steal(PyTuple_New(args.positional.size()));
  for (size_t i = 0; i < args.positional.size(); ++i) {
    Value* value = args.positional[i];
    if (value->kind == Kind::Tensor) throw Break{BreakId::data_exit, "a tensor becomes a Python number or text"};
    Ref literal =
        in.literal_of(value->kind == Kind::Iterator || value->kind == Kind::View ? in.list(in.unpack(value)) : value);
    if (!literal) throw Break{BreakId::unknown_call, "a conversion of something that is no literal"};
    PyTuple_SET_ITEM(positional.get(), i, literal.release());
  }
  Ref keywords = Ref::steal(PyDict_New());
  for (auto& [name, value] : args.keywords) {
    Ref literal = in.literal_of(value);
    if (!literal) throw Break{BreakId::unknown_call, "a conversion of something that is no literal"};
    PyDict_SetItem(keywords.get(), name.get(), literal.get());
  }
  Ref result = Ref::steal(PyObject_Call(callable, positional.get(), keywords.get()));
  if (!result) raise_current(in);
  return in.wrap_result(result.get());
}

/// int(x), float(x), str(x) of an instance go through its special method.
Value* convert(Interpreter& in, CallArgs& args, PyTypeObject* to, const char* method) {
  if (args.positional.size() == 1 && args.positional[0]->kind == Kind::Object) {
    Ref name = Ref::steal(PyUnicode_InternFromString(method));
    Value* self = args.positional[0];
    in.guard_class(in.type_of(self));
    PyObject* found = _PyType_Lookup(in.type_of(self), name.get());
    if (found && PyFunction_Check(found)) return in.call(type_method(in, self, name.get()), {});
    throw Break{BreakId::unknown_call, std::string(to->tp_name) + "() of an instance"};
  }
  return call_literal(in, reinterpret_cast<PyObject*>(to), args);
}

Value* model_int(Interpreter& in, CallArgs& args) { return convert(in, args, &PyLong_Type, "__int__"); }
Value* model_float(Interpreter& in, CallArgs& args) { return convert(in, args, &PyFloat_Type, "__float__"); }
Value* model_str(Interpreter& in, CallArgs& args) { return convert(in, args, &PyUnicode_Type, "__str__"); }
Value* model_complex(Interpreter& in, CallArgs& args) { return convert(in, args, &PyComplex_Type, "__complex__"); }
Value* model_bytes(Interpreter& in, CallArgs& args) {
  return call_literal(in, reinterpret_cast<PyObject*>(&PyBytes_Type), args);
}
Value* model_range(Interpreter& in, CallArgs& args) {
  return call_literal(in, reinterpret_cast<PyObject*>(&PyRange_Type), args);
}
Value* model_repr(Interpreter& in, CallArgs& args) { return in.format(argument(in, args, 0), 2, nullptr); }

Value* model_bool(Interpreter& in, CallArgs& args) {
  return in.boolean(!args.positional.empty() && in.truth(args.positional[0]));
}

Value* model_slice(Interpreter& in, CallArgs& args) {
  auto& p = args.positional;
  if (p.size() == 1) return in.arena.make<SliceValue>(in.none(), p[0], in.none());
  return in.arena.make<SliceValue>(argument(in, args, 0), argument(in, args, 1), p.size() > 2 ? p[2] : in.none());
}

Value* model_tuple(Interpreter& in, CallArgs& args) {
  return in.tuple(args.positional.empty() ? std::vector<Value*>{} : in.unpack(args.positional[0]));
}
Value* model_list(Interpreter& in, CallArgs& args) {
  return in.list(args.positional.empty() ? std::vector<Value*>{} : in.unpack(args.positional[0]));
}

void fill_dict(Interpreter& in, DictValue* dict, const CallArgs& args, size_t first) {
  if (args.positional.size() > first)
    for (auto& [key, value] : mapping_items(in, args.positional[first])) in.dict_set(dict, key, value);
  for (auto& [name, value] : args.keywords) in.dict_set(dict, in.constant(name), value);
}
Value* model_dict(Interpreter& in, CallArgs& args) {
  DictValue* dict = in.dict();
  fill_dict(in, dict, args, 0);
  return dict;
}
Value* model_ordered_dict(Interpreter& in, CallArgs& args) {
  auto* dict = in.arena.make<DictValue>(&PyODict_Type);
  fill_dict(in, dict, args, 0);
  return dict;
}
Value* model_default_dict(Interpreter& in, CallArgs& args) {
  auto* dict = in.arena.make<DictValue>(default_dict_type());
  if (!args.positional.empty() && !in.is_same(args.positional[0], in.none()))
    dict->default_factory = args.positional[0];
  fill_dict(in, dict, args, 1);
  return dict;
}
Value* model_set(Interpreter& in, CallArgs& args) {
  return make_set(in, args.positional.empty() ? std::vector<Value*>{} : in.unpack(args.positional[0]), &PySet_Type);
}
Value* model_frozenset(Interpreter& in, CallArgs& args) {
  return make_set(in, args.positional.empty() ? std::vector<Value*>{} : in.unpack(args.positional[0]),
                  &PyFrozenSet_Type);
}

Value* model_type(Interpreter& in, CallArgs& args) {
  if (args.positional.size() != 1 || !args.keywords.empty()) throw Break{BreakId::unknown_call, "a class is made"};
  return in.constant(reinterpret_cast<PyObject*>(in.type_of(args.positional[0])));
}
Value* model_object(Interpreter& in, CallArgs& args) {
  if (args.count()) throw Break{BreakId::raises, "object() takes no arguments"};
  return in.arena.make<ObjectValue>(&PyBaseObject_Type);
}

Value* model_super(Interpreter& in, CallArgs& args) {
  Value *cls = nullptr, *self = nullptr;
  if (args.positional.empty()) {
    Frame& f = *in.frame;
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    for (int slot = 0; slot < f.code->nlocalsplus; ++slot)
      if ((f.code->slot_kinds[slot] & pycompat::kSlotFree) &&
          PyUnicode_Compare(PyTuple_GET_ITEM(f.code->localsplus_names, slot), name) == 0)
        cls = load_cell(in, as<CellValue>(f.locals[slot]));
    self = in.local(f, 0);
    if (auto* cell = as<CellValue>(self)) self = load_cell(in, cell);
  } else {
    cls = args.positional[0];
    self = args.positional.size() > 1 ? args.positional[1] : nullptr;
  }
  PyObject* type = cls ? in.constant_of(cls) : nullptr;
  if (!type || !PyType_Check(type) || !self) throw Break{BreakId::unknown_call, "super() without its class"};
  PyTypeObject* start = in.type_of(self);
  PyObject* as_class = self->kind == Kind::Constant ? in.constant_of(self) : nullptr;
  if (as_class && PyType_Check(as_class)) start = reinterpret_cast<PyTypeObject*>(as_class);
  return in.arena.make<SuperValue>(reinterpret_cast<PyTypeObject*>(type), start, self);
}

Value* model_len(Interpreter& in, CallArgs& args) {
  auto length = in.length_of(argument(in, args, 0));
  if (!length)
    in.raise(PyExc_TypeError,
             std::string("object of type '") + in.type_of(args.positional[0])->tp_name + "' has no len()");
  return in.integer(*length);
}

Value* model_isinstance(Interpreter& in, CallArgs& args) {
  return in.boolean(in.is_instance(argument(in, args, 0), argument(in, args, 1)));
}
Value* model_issubclass(Interpreter& in, CallArgs& args) {
  Ref cls = in.literal_of(argument(in, args, 0)), of = in.literal_of(argument(in, args, 1));
  if (!cls || !of || !PyType_Check(cls.get()))
    throw Break{BreakId::unknown_call, "issubclass of something that is no class"};
  in.guard_class(cls.as<PyTypeObject>());
  int answer = PyObject_IsSubclass(cls.get(), of.get());
  if (answer < 0) throw Break{BreakId::raises, take_error_text()};
  return in.boolean(answer);
}
Value* model_callable(Interpreter& in, CallArgs& args) {
  Value* value = argument(in, args, 0);
  if (value->kind == Kind::Function || value->kind == Kind::Method) return in.boolean(true);
  if (value->kind == Kind::Constant) return in.boolean(PyCallable_Check(in.constant_of(value)));
  PyTypeObject* type = in.type_of(value);
  in.guard_class(type);
  return in.boolean(type->tp_call != nullptr);
}

Ref attribute_name(Interpreter& in, Value* value) {
  PyObject* name = in.constant_of(value);
  if (!name || !PyUnicode_Check(name)) throw Break{BreakId::raises, "attribute name must be string"};
  Ref interned = Ref::borrow(name);
  PyObject* raw = interned.release();
  PyUnicode_InternInPlace(&raw);
  return Ref::steal(raw);
}
/// An attribute or null; AttributeErrors raised by the program's own properties count as missing.
Value* find_quietly(Interpreter& in, Value* value, PyObject* name) {
  int depth = in.depth;
  Frame* frame = in.frame;
  try {
    return in.find_attr(value, name);
  } catch (const Raise& raised) {
    if (!PyType_IsSubtype(in.type_of(raised.exception), reinterpret_cast<PyTypeObject*>(PyExc_AttributeError))) throw;
    in.depth = depth;
    in.frame = frame;
    return nullptr;
  }
}
Value* model_getattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, argument(in, args, 1));
  if (args.positional.size() < 3) return in.get_attr(args.positional[0], name.get());
  Value* found = find_quietly(in, args.positional[0], name.get());
  return found ? found : args.positional[2];
}
Value* model_hasattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, argument(in, args, 1));
  return in.boolean(find_quietly(in, args.positional[0], name.get()) != nullptr);
}
Value* model_setattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, argument(in, args, 1));
  in.set_attr(args.positional[0], name.get(), argument(in, args, 2));
  return in.none();
}
Value* model_delattr(Interpreter& in, CallArgs& args) {
  Ref name = attribute_name(in, argument(in, args, 1));
  in.del_attr(args.positional[0], name.get());
  return in.none();
}

Value* model_iter(Interpreter& in, CallArgs& args) {
  if (args.positional.size() != 1) throw Break{BreakId::unknown_call, "iter with a sentinel"};
  return in.iterate(args.positional[0]);
}
Value* model_next(Interpreter& in, CallArgs& args) {
  Value* item = in.next(argument(in, args, 0));
  if (item) return item;
  if (args.positional.size() > 1) return args.positional[1];
  Ref stop = Ref::steal(PyObject_CallNoArgs(PyExc_StopIteration));
  throw Raise{in.constant(std::move(stop))};
}
Value* model_enumerate(Interpreter& in, CallArgs& args) {
  Value* start = args.positional.size() > 1 ? args.positional[1] : args.keyword("start");
  return in.arena.make<EnumerateIterator>(in.iterate(argument(in, args, 0)), start ? start : in.integer(0));
}
Value* model_zip(Interpreter& in, CallArgs& args) {
  auto* zip = in.arena.make<ZipIterator>();
  if (Value* strict = args.keyword("strict")) zip->strict = in.truth(strict);
  for (Value* part : args.positional) zip->parts.push_back(in.iterate(part));
  return zip;
}
Value* model_map(Interpreter& in, CallArgs& args) {
  auto* map = in.arena.make<MapIterator>();
  map->function = argument(in, args, 0);
  for (size_t i = 1; i < args.positional.size(); ++i) map->parts.push_back(in.iterate(args.positional[i]));
  return map;
}
Value* model_filter(Interpreter& in, CallArgs& args) {
  return in.arena.make<FilterIterator>(argument(in, args, 0), in.iterate(argument(in, args, 1)));
}
Value* model_reversed(Interpreter& in, CallArgs& args) {
  Value* value = argument(in, args, 0);
  if (value->kind == Kind::Object) {
    static PyObject* const name = PyUnicode_InternFromString("__reversed__");
    in.guard_class(in.type_of(value));
    if (_PyType_Lookup(in.type_of(value), name)) return in.call(type_method(in, value, name), {});
    throw Break{BreakId::unknown_call, "reversed() by __len__ and __getitem__"};
  }
  std::vector<Value*> items = in.unpack(value);
  return in.arena.make<ListedIterator>(std::vector<Value*>(items.rbegin(), items.rend()), &PyReversed_Type);
}

Value* model_any(Interpreter& in, CallArgs& args) {
  Value* iterator = in.iterate(argument(in, args, 0));
  while (Value* item = in.next(iterator))
    if (in.truth(item)) return in.boolean(true);
  return in.boolean(false);
}
Value* model_all(Interpreter& in, CallArgs& args) {
  Value* iterator = in.iterate(argument(in, args, 0));
  while (Value* item = in.next(iterator))
    if (!in.truth(item)) return in.boolean(false);
  return in.boolean(true);
}
Value* model_sum(Interpreter& in, CallArgs& args) {
  Value* start = args.positional.size() > 1 ? args.positional[1] : args.keyword("start");
  Value* total = start ? start : in.integer(0);
  for (Value* item : in.unpack(argument(in, args, 0))) total = in.binary(0, total, item);
  return total;
}

Value* extreme(Interpreter& in, CallArgs& args, int op) {
  std::vector<Value*> items = args.positional.size() == 1 ? in.unpack(args.positional[0]) : args.positional;
  Value* key = args.keyword("key");
  if (key && in.is_same(key, in.none())) key = nullptr;
  if (items.empty()) {
    if (Value* fallback = args.keyword("default")) return fallback;
    in.raise(PyExc_ValueError, "max() or min() of an empty sequence");
  }
  auto rank = [&](Value* item) {
    if (!key) return item;
    CallArgs one;
    one.positional = {item};
    return in.call(key, std::move(one));
  };
  Value *best = items[0], *best_rank = rank(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value* candidate = rank(items[i]);
    if (in.truth(in.compare(op, candidate, best_rank))) {
      best = items[i];
      best_rank = candidate;
    }
  }
  return best;
}
Value* model_max(Interpreter& in, CallArgs& args) { return extreme(in, args, Py_GT); }
Value* model_min(Interpreter& in, CallArgs& args) { return extreme(in, args, Py_LT); }

Value* model_abs(Interpreter& in, CallArgs& args) {
  Value* value = argument(in, args, 0);
  if (auto* tensor = as<TensorValue>(value)) {
    PyObject* fake = in.fake_of(tensor);
    return in.torch_result([&] { return PyNumber_Absolute(fake); }, "abs");
  }
  return call_literal(in, known_object("builtins.abs"), args);
}

Value* model_sorted(Interpreter& in, CallArgs& args) {
  Value* list = in.list(in.unpack(argument(in, args, 0)));
  sort_list(in, as_sequence(list), args.keyword("key"), args.keyword("reverse"));
  return list;
}

Value* model_id(Interpreter&, CallArgs&) { throw Break{BreakId::unknown_call, "id()"}; }
Value* model_print(Interpreter&, CallArgs&) { throw Break{BreakId::unknown_call, "print()"}; }
Value* model_vars(Interpreter& in, CallArgs& args) {
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  return in.get_attr(argument(in, args, 0), name);
}
Value* model_globals(Interpreter&, CallArgs&) { throw Break{BreakId::unknown_call, "globals()"}; }

constexpr ModelRow kFunctions[] = {
    {"builtins.len", model_len},
    {"builtins.isinstance", model_isinstance},
    {"builtins.issubclass", model_issubclass},
    {"builtins.callable", model_callable},
    {"builtins.getattr", model_getattr},
    {"builtins.hasattr", model_hasattr},
    {"builtins.setattr", model_setattr},
    {"builtins.delattr", model_delattr},
    {"builtins.iter", model_iter},
    {"builtins.next", model_next},
    {"builtins.any", model_any},
    {"builtins.all", model_all},
    {"builtins.sum", model_sum},
    {"builtins.max", model_max},
    {"builtins.min", model_min},
    {"builtins.abs", model_abs},
    {"builtins.sorted", model_sorted},
    {"builtins.repr", model_repr},
    {"builtins.id", model_id},
    {"builtins.print", model_print},
    {"builtins.vars", model_vars},
    {"builtins.globals", model_globals},
};

constexpr ModelRow kTypes[] = {
    {"builtins.int", model_int},
    {"builtins.float", model_float},
    {"builtins.str", model_str},
    {"builtins.complex", model_complex},
    {"builtins.bytes", model_bytes},
    {"builtins.bool", model_bool},
    {"builtins.range", model_range},
    {"builtins.slice", model_slice},
    {"builtins.tuple", model_tuple},
    {"builtins.list", model_list},
    {"builtins.dict", model_dict},
    {"collections.OrderedDict", model_ordered_dict},
    {"collections.defaultdict", model_default_dict},
    {"builtins.set", model_set},
    {"builtins.frozenset", model_frozenset},
    {"builtins.type", model_type},
    {"builtins.object", model_object},
    {"builtins.super", model_super},
    {"builtins.enumerate", model_enumerate},
    {"builtins.zip", model_zip},
    {"builtins.map", model_map},
    {"builtins.filter", model_filter},
    {"builtins.reversed", model_reversed},
};

}  // namespace

std::span<const ModelRow> builtin_function_models() { return kFunctions; }
std::span<const ModelRow> builtin_type_models() { return kTypes; }

}  // namespace stator::capture
