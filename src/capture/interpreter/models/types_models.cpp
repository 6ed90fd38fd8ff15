// Models of calls of built-in classes.
#include "capture/guards/literals.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/iteration.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"

namespace stator::capture {
namespace {

/// int(x), float(x), str(x) of an instance: calls the first of its special methods `methods` that it has.
Value* convert(Interpreter& in, CallArgs& args, PyTypeObject* to, std::initializer_list<const char*> methods) {
  static PyObject* const index = PyUnicode_InternFromString("__index__");
  static PyObject* const real = PyUnicode_InternFromString("__float__");
  Value* self = at_or_null(args, 0);
  if (args.count() == 1 && self && self->kind == Kind::Object) {
    in.guards.add_class(in.type_of(self));
    for (const char* method : methods) {
      Ref name = Ref::steal(PyUnicode_InternFromString(method));
      PyObject* found = look_up(in.type_of(self), name.get());
      if (!found) continue;
      if (!PyFunction_Check(found)) break;  // inherited from a builtin class: CPython asks no other method
      Value* made = in.call(type_method(in, self, name.get()), {});
      PyTypeObject* type = in.type_of(made);
      if (type == to) return made;
      // `__index__` may return an int for float(), and `__float__` a float for complex().
      const bool is_other =
          (type == &PyLong_Type && name.get() == index) || (type == &PyFloat_Type && name.get() == real);
      if (is_other) return call_literal(in, reinterpret_cast<PyObject*>(to), arguments({made}));
      throw Break{BreakId::raises, std::string(method) + " returned another type"};
    }
    throw Break{BreakId::unknown_call, std::string(to->tp_name) + "() of an instance"};
  }
  return call_literal(in, reinterpret_cast<PyObject*>(to), args);
}

/// int(), float() or bool() of one tensor or number that depends on data; null for other calls.
Value* converted_number(Interpreter& in, CallArgs& args, const char* to) {
  if (args.count() != 1 || args.positional.size() != 1) return nullptr;
  args.positional[0] = graph_number(in, args.positional[0]);
  auto* tensor = as<TensorValue>(args.positional[0]);
  const std::string method = std::string("__") + to + "__";
  if (!tensor || !is_customised(in, tensor, method.c_str())) return number_conversion(in, to, args.positional[0]);
  Ref name = Ref::steal(PyUnicode_InternFromString(method.c_str()));
  Value* made = in.call(type_method(in, tensor, name.get()), {});
  if (std::string_view(in.type_of(made)->tp_name) != to)
    throw Break{BreakId::raises, method + " returned another type"};
  return made;
}

Value* model_int(Interpreter& in, CallArgs& args) {
  if (args.count() == 1 && args.positional.size() == 1)
    if (Value* same = varying_as(in, args.positional[0], &PyLong_Type)) return same;
  if (Value* number = converted_number(in, args, "int")) return number;
  return convert(in, args, &PyLong_Type, {"__int__", "__index__", "__trunc__"});
}
Value* model_float(Interpreter& in, CallArgs& args) {
  if (args.count() == 1 && args.positional.size() == 1)
    if (Value* same = varying_as(in, args.positional[0], &PyFloat_Type)) return same;
  if (Value* number = converted_number(in, args, "float")) return number;
  return convert(in, args, &PyFloat_Type, {"__float__", "__index__"});
}
Value* model_complex(Interpreter& in, CallArgs& args) {
  return convert(in, args, &PyComplex_Type, {"__complex__", "__float__", "__index__"});
}
Value* model_str(Interpreter& in, CallArgs& args) {
  constexpr int kStr = 1;
  if (args.count() == 1 && !args.positional.empty()) return in.format(args.positional[0], kStr, nullptr);
  return call_literal(in, reinterpret_cast<PyObject*>(&PyUnicode_Type), args);
}
Value* model_bytes(Interpreter& in, CallArgs& args) {
  return call_literal(in, reinterpret_cast<PyObject*>(&PyBytes_Type), args);
}
Value* model_range(Interpreter& in, CallArgs& args) {
  return call_literal(in, reinterpret_cast<PyObject*>(&PyRange_Type), args);
}
Value* model_bool(Interpreter& in, CallArgs& args) {
  if (Value* number = converted_number(in, args, "bool")) return number;
  return in.boolean(!args.positional.empty() && in.truth(args.positional[0]));
}

Value* model_slice(Interpreter& in, CallArgs& args) {
  auto& p = args.positional;
  if (p.size() == 1) return in.arena.make<SliceValue>(in.none(), p[0], in.none());
  return in.arena.make<SliceValue>(args.positional[0], args.positional[1], p.size() > 2 ? p[2] : in.none());
}

Value* model_tuple(Interpreter& in, CallArgs& args) {
  Value* given = at_or_null(args, 0);
  bool is_tuple = given && (given->kind == Kind::Tuple || given->kind == Kind::Constant);
  if (is_tuple && in.type_of(given) == &PyTuple_Type) return given;
  return in.tuple(args.positional.empty() ? std::vector<Value*>{} : unpack_hinted(in, args.positional[0]));
}
Value* model_list(Interpreter& in, CallArgs& args) {
  return in.list(args.positional.empty() ? std::vector<Value*>{} : unpack_hinted(in, args.positional[0]));
}

void fill_dict(Interpreter& in, DictValue* dict, const CallArgs& args, size_t first) {
  if (args.positional.size() > first)
    for (auto& [key, value] : items_to_put(in, args.positional[first])) in.dict_set(dict, key, value);
  for (auto& [name, value] : args.keywords) in.dict_set(dict, in.constant(name), value);
}
Value* model_dict(Interpreter& in, CallArgs& args) {
  DictValue* dict = in.dict();
  fill_dict(in, dict, args, 0);
  return dict;
}
Value* model_ordered_dict(Interpreter& in, CallArgs& args) {
  auto* dict = in.arena.make<DictValue>(&PyODict_Type);
  CallArgs init = args;
  init.positional.insert(init.positional.begin(), dict);
  static PyObject* const method = known_object("collections.OrderedDict.__init__");
  call_model(in, *model_of(method), init);
  return dict;
}
Value* model_default_dict(Interpreter& in, CallArgs& args) {
  auto* dict = in.arena.make<DictValue>(default_dict_type());
  if (!args.positional.empty() && !in.is_same(args.positional[0], in.none()))
    dict->default_factory = args.positional[0];
  if (dict->default_factory && !is_callable(in, dict->default_factory))
    in.raise(PyExc_TypeError, "first argument must be callable or None");
  fill_dict(in, dict, args, 1);
  return dict;
}
Value* model_set(Interpreter& in, CallArgs& args) {
  return args.positional.empty() ? make_set(in, {}, &PySet_Type) : set_from(in, args.positional[0], &PySet_Type);
}
Value* model_frozenset(Interpreter& in, CallArgs& args) {
  if (args.positional.empty()) return make_set(in, {}, &PyFrozenSet_Type);
  Value* given = args.positional[0];
  bool same = given->kind == Kind::Set && in.type_of(given) == &PyFrozenSet_Type;
  return same ? given : set_from(in, given, &PyFrozenSet_Type);
}

Value* model_object(Interpreter& in, CallArgs&) { return in.arena.make<ObjectValue>(&PyBaseObject_Type); }

Value* model_super(Interpreter& in, CallArgs& args) {
  Value *cls = nullptr, *self = nullptr;
  if (args.positional.empty()) {
    Frame& f = *in.frames.current();
    if (f.code->argcount == 0) in.raise(PyExc_RuntimeError, "super(): no arguments");
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    for (int slot = 0; slot < f.code->nlocalsplus; ++slot)
      if ((f.code->slot_kinds[slot] & pycompat::kSlotFree) &&
          PyUnicode_Compare(PyTuple_GET_ITEM(f.code->localsplus_names, slot), name) == 0)
        cls = load_cell(in, as<CellValue>(f.locals[slot]));
    self = in.local(f, 0);
    auto* cell =
        f.code->nlocalsplus > 0 && (f.code->slot_kinds[0] & pycompat::kSlotCell) ? as<CellValue>(self) : nullptr;
    if (cell) self = load_cell(in, cell);
    if (!self) throw Break{BreakId::raises, "super(): no arguments"};
  } else {
    cls = args.positional[0];
    self = args.positional.size() > 1 ? args.positional[1] : nullptr;
  }
  PyObject* type = cls ? in.constant_of(cls) : nullptr;
  if (!type || !PyType_Check(type) || !self) throw Break{BreakId::unknown_call, "super() without its class"};
  PyTypeObject* start = in.type_of(self);
  PyObject* as_class = self->kind == Kind::Constant ? in.constant_of(self) : nullptr;
  bool is_subclass = as_class && PyType_Check(as_class) &&
                     PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(as_class), reinterpret_cast<PyTypeObject*>(type));
  if (is_subclass) start = reinterpret_cast<PyTypeObject*>(as_class);
  if (!PyType_IsSubtype(start, reinterpret_cast<PyTypeObject*>(type)) && !is_subclass)
    in.raise(PyExc_TypeError, "super(type, obj): obj must be an instance or subtype of type");
  return in.arena.make<SuperValue>(reinterpret_cast<PyTypeObject*>(type), start, self);
}

Value* model_enumerate(Interpreter& in, CallArgs& args) {
  Value* start = argument(args, 1, "start");
  if (start) index_of(in, start);
  if (start && start->kind == Kind::Object) throw Break{BreakId::unknown_object, "enumerate() from an instance"};
  return in.arena.make<EnumerateIterator>(in.iterate(argument(args, 0, "iterable")), start ? start : in.integer(0));
}
Value* model_zip(Interpreter& in, CallArgs& args) {
  auto* zip = in.arena.make<ZipIterator>();
  if (Value* strict = args.keyword("strict")) zip->strict = in.truth(strict);
  for (Value* part : args.positional) zip->parts.push_back(in.iterate(part));
  return zip;
}
Value* model_map(Interpreter& in, CallArgs& args) {
  auto* map = in.arena.make<MapIterator>();
  map->function = args.positional[0];
  for (size_t i = 1; i < args.positional.size(); ++i) map->parts.push_back(in.iterate(args.positional[i]));
  return map;
}
Value* model_filter(Interpreter& in, CallArgs& args) {
  return in.arena.make<FilterIterator>(args.positional[0], in.iterate(args.positional[1]));
}
Value* model_reversed(Interpreter& in, CallArgs& args) {
  Value* value = args.positional[0];
  if (value->kind == Kind::Set)
    in.raise(PyExc_TypeError, std::string("'") + in.type_of(value)->tp_name + "' object is not reversible");
  if (value->kind != Kind::Object) return reversed_items(in, value);
  static PyObject* const name = PyUnicode_InternFromString("__reversed__");
  PyTypeObject* type = in.type_of(value);
  in.guards.add_class(type);
  PyObject* found = look_up(type, name);
  if (found && found != Py_None) return in.call(type_method(in, value, name), {});
  static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
  if (found || in.dict_part(value) || !look_up(type, getitem))
    in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not reversible");
  return in.arena.make<ItemIterator>(value, *in.length_of(value) - 1, -1, &PyReversed_Type);
}

Value* model_str_format(Interpreter& in, CallArgs& args) {
  const std::vector<Value*> values(args.positional.begin() + 1, args.positional.end());
  if (args.keywords.empty())
    if (Value* text = formatted_text(in, args.positional[0], values)) return text;
  return call_literal(in, known_object("builtins.str.format"), args);
}

constexpr ModelRow kTypes[] = {
    {"builtins.str.format", model_str_format, 1, ModelRow::kAny, "*"},
    {"builtins.int", model_int, 0, 2, "base"},
    {"builtins.float", model_float, 0, 1},
    {"builtins.str", model_str, 0, 3, "object encoding errors"},
    {"builtins.complex", model_complex, 0, 2, "real imag"},
    {"builtins.bytes", model_bytes, 0, 3, "source encoding errors"},
    {"builtins.bool", model_bool, 0, 1},
    {"builtins.range", model_range, 1, 3},
    {"builtins.slice", model_slice, 1, 3},
    {"builtins.tuple", model_tuple, 0, 1},
    {"builtins.list", model_list, 0, 1},
    {"builtins.dict", model_dict, 0, 1, "*"},
    {"collections.OrderedDict", model_ordered_dict, 0, 1, "*"},
    {"collections.defaultdict", model_default_dict, 0, 2, "*"},
    {"builtins.set", model_set, 0, 1},
    {"builtins.frozenset", model_frozenset, 0, 1},
    {"builtins.object", model_object, 0, 0},
    {"builtins.super", model_super, 0, 2},
    {"builtins.enumerate", model_enumerate, 1, 2, "iterable start"},
    {"builtins.zip", model_zip, 0, ModelRow::kAny, "strict"},
    {"builtins.map", model_map, 2},
    {"builtins.filter", model_filter, 2, 2},
    {"builtins.reversed", model_reversed, 1, 1},
};

}  // namespace

std::span<const ModelRow> builtin_type_models() { return kTypes; }

}  // namespace stator::capture
