// Operators of the language on values: truth, identity, arithmetic, comparison, formatting.
#include "capture/guards/literals.h"
#include "capture/interpreter/arrays.h"
#include "capture/interpreter/assumptions.h"
#include "capture/interpreter/equality.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/keys.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/merging.h"
#include "capture/interpreter/mixed_operands.h"
#include "capture/interpreter/nesting.h"
#include "capture/interpreter/numbers.h"
#include "capture/interpreter/overrides.h"
#include "capture/interpreter/varying_numbers.h"

namespace stator::capture {
namespace {

struct BinaryRow {
  PyObject* (*apply)(PyObject*, PyObject*);
  const char *method, *reflected, *in_place;  // in_place: only for the augmented forms
  const char* symbol;                         // as error messages show it
};

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* in_place_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

// In the order of CPython's NB_* numbers.
constexpr BinaryRow kBinary[] = {
    {PyNumber_Add, "__add__", "__radd__", nullptr, "+"},
    {PyNumber_And, "__and__", "__rand__", nullptr, "&"},
    {PyNumber_FloorDivide, "__floordiv__", "__rfloordiv__", nullptr, "//"},
    {PyNumber_Lshift, "__lshift__", "__rlshift__", nullptr, "<<"},
    {PyNumber_MatrixMultiply, "__matmul__", "__rmatmul__", nullptr, "@"},
    {PyNumber_Multiply, "__mul__", "__rmul__", nullptr, "*"},
    {PyNumber_Remainder, "__mod__", "__rmod__", nullptr, "%"},
    {PyNumber_Or, "__or__", "__ror__", nullptr, "|"},
    {power, "__pow__", "__rpow__", nullptr, "** or pow()"},
    {PyNumber_Rshift, "__rshift__", "__rrshift__", nullptr, ">>"},
    {PyNumber_Subtract, "__sub__", "__rsub__", nullptr, "-"},
    {PyNumber_TrueDivide, "__truediv__", "__rtruediv__", nullptr, "/"},
    {PyNumber_Xor, "__xor__", "__rxor__", nullptr, "^"},
    {PyNumber_InPlaceAdd, "__add__", "__radd__", "__iadd__", "+="},
    {PyNumber_InPlaceAnd, "__and__", "__rand__", "__iand__", "&="},
    {PyNumber_InPlaceFloorDivide, "__floordiv__", "__rfloordiv__", "__ifloordiv__", "//="},
    {PyNumber_InPlaceLshift, "__lshift__", "__rlshift__", "__ilshift__", "<<="},
    {PyNumber_InPlaceMatrixMultiply, "__matmul__", "__rmatmul__", "__imatmul__", "@="},
    {PyNumber_InPlaceMultiply, "__mul__", "__rmul__", "__imul__", "*="},
    {PyNumber_InPlaceRemainder, "__mod__", "__rmod__", "__imod__", "%="},
    {PyNumber_InPlaceOr, "__or__", "__ror__", "__ior__", "|="},
    {in_place_power, "__pow__", "__rpow__", "__ipow__", "**="},
    {PyNumber_InPlaceRshift, "__rshift__", "__rrshift__", "__irshift__", ">>="},
    {PyNumber_InPlaceSubtract, "__sub__", "__rsub__", "__isub__", "-="},
    {PyNumber_InPlaceTrueDivide, "__truediv__", "__rtruediv__", "__itruediv__", "/="},
    {PyNumber_InPlaceXor, "__xor__", "__rxor__", "__ixor__", "^="},
};

Value* pure_result(Interpreter& in, PyObject* result) {
  Ref owned = Ref::steal(result);
  if (!owned) raise_current(in);
  return in.wrap_result(owned.get());
}

/// A special method of an instance's class as a bound value, or null. One that is None is called like any other, but
/// for those by which a class says that it has none, each in words of its own.
Value* special(Interpreter& in, Value* value, const char* name) {
  PyTypeObject* type = in.type_of(value);
  in.guard_class(type);
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* found = _PyType_Lookup(type, key.get());
  if (!found) return nullptr;
  if (found == Py_None) {
    static constexpr std::string_view kContains = "__contains__";
    if (name != kContains) in.raise(PyExc_TypeError, "'NoneType' object is not callable");
    in.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not a container");
  }
  return in.bind_descriptor(found, type, value, key.get());
}

bool is_not_implemented(Interpreter& in, Value* value) {
  return value->kind == Kind::Constant && in.constant_of(value) == Py_NotImplemented;
}

Value* try_special(Interpreter& in, Value* self, const char* name, Value* argument) {
  Value* method = special(in, self, name);
  if (!method) return nullptr;
  CallArgs args;
  args.positional = {argument};
  Value* result = in.call(method, std::move(args));
  return is_not_implemented(in, result) ? nullptr : result;
}

bool has_method(PyTypeObject* type, const char* name) {
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return _PyType_Lookup(type, key.get()) != nullptr;
}

/// Whether the classes have different methods of that name.
bool differ_in(PyTypeObject* a, PyTypeObject* b, const char* name) {
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return _PyType_Lookup(a, key.get()) != _PyType_Lookup(b, key.get());
}

bool has_special_methods(const Value* value) { return value->kind == Kind::Object || value->kind == Kind::Tensor; }

/// Operands whose classes decide: instances, and tensors of a class that has a method of its own for the operator.
bool is_by_class(Interpreter& in, Value* a, Value* b, std::initializer_list<const char*> methods) {
  for (Value* value : {a, b}) {
    if (value->kind == Kind::Object) return true;
    auto* tensor = as<TensorValue>(value);
    for (const char* method : methods)
      if (tensor && method && defines_anew(in, tensor, method)) return true;
  }
  return false;
}

Value* object_binary(Interpreter& in, const BinaryRow& row, Value* a, Value* b) {
  constexpr ptrdiff_t kInPlace = 13;
  const auto op = static_cast<int>((&row - kBinary) - (row.in_place ? kInPlace : 0));
  auto ask = [&](Value* self, const char* method, Value* other, bool reflected = false) {
    if (is_of_sequence(in.type_of(self), method)) return static_cast<Value*>(nullptr);
    if (has_special_methods(self)) return try_special(in, self, method, other);
    return built_in_answer(in, method, self, other, [&](Value* part) {
      return reflected ? in.binary(op, part, self) : in.binary(op, self, part);
    });
  };
  Value* result = nullptr;
  if (row.in_place && (result = ask(a, row.in_place, b))) return result;
  const bool is_one_class = in.type_of(a) == in.type_of(b);
  // A subclass comes first if it has a method of its own for it.
  const bool right_first = !is_one_class && PyType_IsSubtype(in.type_of(b), in.type_of(a)) &&
                           differ_in(in.type_of(a), in.type_of(b), row.reflected);
  if (right_first && (result = ask(b, row.reflected, a, true))) return result;
  if ((result = ask(a, row.method, b))) return result;
  if (!right_first && !is_one_class && (result = ask(b, row.reflected, a, true))) return result;
  // Then it is sequences that are asked, unless they would ask again who has refused.
  auto ask_sequence = [&](Value* self, const char* method, Value* other) {
    if (!method || !has_special_methods(self) || !is_of_sequence(in.type_of(self), method)) return result;
    for (const char* asked : {row.method, row.reflected})
      if (has_special_methods(other) && has_method(in.type_of(other), asked) &&
          !is_of_sequence(in.type_of(other), asked))
        return result;
    return try_special(in, self, method, other);
  };
  for (const char* method : {row.in_place, row.method})
    if ((result = ask_sequence(a, method, b))) return result;
  if ((result = ask_sequence(b, row.reflected, a))) return result;
  // They have words of their own for it.
  for (Value* value : {a, b})
    if (in.type_of(value)->tp_as_sequence && in.type_of(value)->tp_as_sequence->sq_concat)
      throw Break{BreakId::raises, "unsupported operand types"};
  in.raise(PyExc_TypeError, std::string("unsupported operand type(s) for ") + row.symbol + ": '" +
                                in.type_of(a)->tp_name + "' and '" + in.type_of(b)->tp_name + "'");
}

Value* repeat(Interpreter& in, SequenceValue* sequence, Value* times, bool in_place) {
  PyObject* count = in.constant_of(times);
  if (!count || !PyLong_Check(count))
    throw Break{BreakId::unknown_object, "a sequence times something else than an int"};
  const Py_ssize_t n = PyNumber_AsSsize_t(count, PyExc_OverflowError);
  if (n == -1 && PyErr_Occurred()) raise_current(in);
  constexpr Py_ssize_t kMost = 1 << 20;
  const auto size = static_cast<Py_ssize_t>(sequence->items.size());
  // A tuple that stays what it is, is itself.
  if (n == 1 && is_exact_tuple(sequence)) return sequence;
  if (size > 0 && n > kMost / size) throw Break{BreakId::unknown_object, "a sequence that is repeated very often"};
  std::vector<Value*> once;
  for (size_t i = 0; i < sequence->items.size(); ++i) once.push_back(in.item(sequence, i));
  std::vector<Value*> items;
  for (Py_ssize_t k = 0; k < n && !once.empty(); ++k) items.insert(items.end(), once.begin(), once.end());
  if (in_place && sequence->kind == Kind::List) {
    sequence->items = std::move(items);
    in.mutated(sequence);
    return sequence;
  }
  return sequence->kind == Kind::List ? in.list(std::move(items)) : in.tuple(std::move(items));
}

Value* sequence_binary(Interpreter& in, int op, Value* a, Value* b) {
  constexpr int kAdd = 0, kMultiply = 5, kInPlaceAdd = 13, kInPlaceMultiply = 18;
  SequenceValue *x = as_sequence(a), *y = as_sequence(b);
  if (op == kInPlaceAdd && x && x->kind == Kind::List) {
    extend_list(in, x, b);
    return x;
  }
  if ((op == kAdd || op == kInPlaceAdd) && (x || y)) {
    Kind kind = x ? x->kind : y->kind;
    // A tuple that is a literal stands beside one that is not; a torch.Size has sums of its own.
    auto fits = [&](Value* value, SequenceValue* sequence) {
      if (sequence) return sequence->kind == kind;
      Ref literal = kind == Kind::Tuple ? in.literal_of(value) : Ref();
      return literal && PyTuple_CheckExact(literal.get());
    };
    if (!fits(a, x) || !fits(b, y)) return nullptr;
    std::vector<Value*> items = in.unpack(a), more = in.unpack(b);
    auto stays = [&](Value* value) {
      return value->kind == Kind::Constant || (as_sequence(value) && is_exact_tuple(as_sequence(value)));
    };
    if (kind == Kind::Tuple && (items.empty() || more.empty()) && stays(a) && stays(b)) return more.empty() ? a : b;
    items.insert(items.end(), more.begin(), more.end());
    return kind == Kind::List ? in.list(std::move(items)) : in.tuple(std::move(items));
  }
  if ((op == kMultiply || op == kInPlaceMultiply) && (x || y))
    return repeat(in, x ? x : y, x ? b : a, op == kInPlaceMultiply && x);
  return nullptr;
}

/// Sets, frozensets and the set-like views of dicts; a constant frozenset is one too. Null for anything else.
SetValue* set_operand(Interpreter& in, Value* value) {
  if (auto* set = as<SetValue>(value)) return set;
  if (auto* view = as<ViewValue>(value); view && view->part != ViewValue::Part::Values)
    return set_from(in, in.list(in.unpack(view)), &PySet_Type);
  if (value->kind != Kind::Constant || in.type_of(value) != &PyFrozenSet_Type) return nullptr;
  return set_from(in, value, &PyFrozenSet_Type);
}

Value* set_binary(Interpreter& in, int op, Value* a, Value* b) {
  constexpr int kInPlace = 13;
  int plain = op >= kInPlace ? op - kInPlace : op;
  if (plain != 1 && plain != 7 && plain != 10 && plain != 12) return nullptr;
  SetValue *x = set_operand(in, a), *y = x ? set_operand(in, b) : nullptr;
  if (!y) return nullptr;
  // What is no set a set leaves to the other one, which makes a new one.
  if (op < kInPlace || x != a || x->type != &PySet_Type || b->kind == Kind::View) {
    SetValue* made = set_combine(in, plain, x, y);
    // A view makes a set, on whichever side it stands.
    if (a->kind == Kind::View || b->kind == Kind::View) made->type = &PySet_Type;
    return made;
  }
  set_change(in, plain, x, y);
  return x;
}

}  // namespace

Value* Interpreter::binary(int op, Value* a, Value* b) {
  const BinaryRow& row = kBinary[op];
  if (a->kind == Kind::Array || b->kind == Kind::Array)
    return array_binary(*this, row.in_place ? row.in_place : row.method, row.reflected, a, b);
  if (a->kind == Kind::Tensor || b->kind == Kind::Tensor) {
    // A number does not know what to do with a tensor and leaves it to that.
    bool by_class = is_by_class(*this, a, b, {row.method, row.reflected, row.in_place});
    if (by_class || (is_number(a) && is_overridden(*this, b))) return object_binary(*this, row, a, b);
    constexpr int kSubtract = 10, kInPlaceSubtract = 23;
    if (is_number(a)) {
      if (op != kSubtract && op != kInPlaceSubtract) return call_method(b, row.reflected, {a});
      PyObject *x = number_fake(*this, static_cast<NumberValue*>(a)), *y = fake_of(static_cast<TensorValue*>(b));
      return torch_result([&] { return PyNumber_Subtract(x, y); }, row.method);
    }
    Value* const operands[] = {a, b};
    return apply(operands, row.method, [&](PyObject* const* x) { return row.apply(x[0], x[1]); });
  }
  if (is_number(a) || is_number(b)) return number_binary(*this, op, a, b);
  if (Value* later = varying_result(*this, op, a, b)) return later;
  for (Value* operand : {a, b}) refuse_result(operand);
  if (a->kind == Kind::Constant && b->kind == Kind::Constant) {
    PyObject *x = constant_of(a), *y = constant_of(b);
    return pure_result(*this, row.apply(x, y));
  }
  if (a->kind == Kind::Object || b->kind == Kind::Object) return object_binary(*this, row, a, b);
  if (Value* result = sequence_binary(*this, op, a, b)) return result;
  if (a->kind == Kind::Dict && op == 20) {
    auto* dict = static_cast<DictValue*>(a);
    merge_items(*this, dict, b, dict->type == ordered_dict_type() ? each_item_for_ordered : each_item);
    return a;
  }
  if (Value* result = set_binary(*this, op, a, b)) return result;
  if (a->kind == Kind::Dict && op == 7 && b->kind == Kind::Dict) {
    // The left one's class decides, unless that is dict itself.
    auto* like = static_cast<DictValue*>(static_cast<DictValue*>(a)->type == &PyDict_Type ? b : a);
    auto* merged = arena.make<DictValue>(like->type);
    if (like->type == default_dict_type()) {
      Value* factory = default_factory(*this, like);
      if (!is_same(factory, none())) merged->default_factory = factory;
    }
    for (Value* part : {a, b})
      for (auto& [key, value] : items_to_put(*this, part)) dict_set(merged, key, value);
    return merged;
  }
  Ref x = literal_of(a), y = literal_of(b);
  if (!x || !y) throw Break{BreakId::unknown_object, std::string("operator ") + row.method};
  return pure_result(*this, row.apply(x.get(), y.get()));
}

Value* Interpreter::unary(pycompat::Op op, Value* value) {
  using pycompat::Op;
  if (auto* number = as<NumberValue>(value)) return number_unary(*this, op, number);
  if (op == Op::UNARY_NOT) return boolean(!truth(value));
  auto apply = op == Op::UNARY_NEGATIVE ? PyNumber_Negative
               : op == Op::UNARY_INVERT ? PyNumber_Invert
                                        : PyNumber_Positive;
  const char* name = op == Op::UNARY_NEGATIVE ? "__neg__" : op == Op::UNARY_INVERT ? "__invert__" : "__pos__";
  bool by_class = is_by_class(*this, value, value, {name});
  if (value->kind == Kind::Tensor && !by_class)
    return this->apply(std::span(&value, 1), "unary operator", [&](PyObject* const* x) { return apply(x[0]); });
  if (value->kind == Kind::Array) return array_method(*this, name, {value});
  if (by_class) {
    Value* method = special(*this, value, name);
    if (!method)
      raise(PyExc_TypeError, std::string("bad operand type for unary ") +
                                 (op == Op::UNARY_NEGATIVE ? "-"
                                  : op == Op::UNARY_INVERT ? "~"
                                                           : "+") +
                                 ": '" + type_of(value)->tp_name + "'");
    return call(method, {});
  }
  Ref literal = literal_of(value);
  if (!literal) throw Break{BreakId::unknown_object, "unary operator"};
  return pure_result(*this, apply(literal.get()));
}

static Py_ssize_t special_length(Interpreter& in, Value* value) {
  Value* method = special(in, value, "__len__");
  if (!method)
    in.raise(PyExc_TypeError, std::string("object of type '") + in.type_of(value)->tp_name + "' has no len()");
  PyObject* given = in.constant_of(in.call(method, {}));
  if (!given || PyType_Check(given)) throw Break{BreakId::unknown_object, "__len__ gave no int"};
  Ref number = Ref::steal(PyNumber_Index(given));
  if (!number) raise_current(in);
  if (PyNumber_AsSsize_t(number.get(), nullptr) < 0) in.raise(PyExc_ValueError, "__len__() should return >= 0");
  const Py_ssize_t length = PyNumber_AsSsize_t(number.get(), PyExc_OverflowError);
  if (length < 0) raise_current(in);
  return length;
}

/// What a class's `__bool__` gives: nothing but a bool will do.
static bool special_truth(Interpreter& in, Value* method) {
  Value* given = in.call(method, {});
  PyTypeObject* type = in.type_of(given);
  if (type != &PyBool_Type)
    in.raise(PyExc_TypeError, std::string("__bool__ should return bool, returned ") + type->tp_name);
  return in.truth(given);
}

/// By the class's `__bool__` or `__len__`, if it has one.
static bool truth_by_class(Interpreter& in, Value* value) {
  if (Value* method = special(in, value, "__bool__")) return special_truth(in, method);
  return !special(in, value, "__len__") || special_length(in, value) > 0;
}

bool Interpreter::truth(Value* value) {
  switch (value->kind) {
    case Kind::Constant: {
      PyObject* object = constant_of(value);
      if (!static_cast<ConstantValue*>(value)->literal) {
        // Such as enumerations, and classes by their metaclass.
        if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) return truth_by_class(*this, value);
        if (PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object)) return true;
      }
      int result = PyObject_IsTrue(object);
      if (result < 0) raise_current(*this);
      return result == 1;
    }
    case Kind::Tensor:
      if (is_asked(*this, static_cast<TensorValue*>(value), "__bool__"))
        return special_truth(*this, special(*this, value, "__bool__"));
      throw Break{BreakId::data_dependent, "the truth of a tensor decides a branch"};
    case Kind::Array:
      throw Break{BreakId::data_dependent, "the truth of an array decides a branch"};
    case Kind::Number:
    case Kind::Text:
      if (auto assumed = earlier_assumed(*this, value)) return *assumed;
      needs_number("decides a branch");
    case Kind::View:
    case Kind::Dict:
      return *length_of(value) > 0;
    case Kind::Tuple:
    case Kind::List:
      return !static_cast<SequenceValue*>(value)->items.empty();
    case Kind::Set:
      return set_size(static_cast<SetValue*>(value)) > 0;
    case Kind::Object:
      return truth_by_class(*this, value);
    case Kind::Opaque:
      refuse_result(value);
      return true;
    default:
      return true;
  }
}

/// There is only one of them.
static bool is_empty_tuple(Interpreter& in, Value* value) {
  if (value->kind == Kind::Tuple)
    return static_cast<SequenceValue*>(value)->type == &PyTuple_Type &&
           static_cast<SequenceValue*>(value)->items.empty();
  return value->kind == Kind::Constant && in.type_of(value) == &PyTuple_Type &&
         PyTuple_GET_SIZE(in.constant_of(value)) == 0;
}

bool Interpreter::is_same(Value* a, Value* b) {
  if (a == b) return true;
  if ((a->kind == Kind::Tuple || b->kind == Kind::Tuple) && is_empty_tuple(*this, a) && is_empty_tuple(*this, b))
    return true;
  auto singleton = [](Value* v) {
    auto* c = as<ConstantValue>(v);
    if (!c) return false;
    PyObject* o = c->object.get();
    return o == Py_None || o == Py_True || o == Py_False || o == Py_Ellipsis || o == Py_NotImplemented;
  };
  auto *x = as<ConstantValue>(a), *y = as<ConstantValue>(b);
  for (auto [one, other] : {std::pair{a, b}, std::pair{b, a}})
    if ((one->kind == Kind::Number || one->kind == Kind::Text) && type_of(one) == type_of(other))
      needs_number("is compared by who it is");
  if (x && y) {
    if (Py_TYPE(x->object.get()) != Py_TYPE(y->object.get())) {
      type_of(a);
      type_of(b);
      return false;
    }
    PyObject *p = constant_of(a), *q = constant_of(b);
    if (singleton(a) || singleton(b) || !x->literal || !y->literal) return p == q;
    if (!literal_equal(p, q)) return false;
    if (p == q && !x->source && !y->source) return true;
    throw Break{BreakId::unknown_object, "identity of equal literals"};
  }
  if (a->kind == Kind::Opaque || b->kind == Kind::Opaque) {
    Value* other = a->kind == Kind::Opaque ? b : a;
    if (!singleton(other)) throw Break{BreakId::unknown_object, "identity of something unknown"};
    constant_of(other);
    return false;
  }
  if (x || y) {
    type_of(a);
    type_of(b);
    return false;
  }
  if (a->source && b->source) {
    auto pinned = [](Value* v) { return v->kind == Kind::Object && static_cast<ObjectValue*>(v)->pinned; };
    if (!(pinned(a) && pinned(b))) guard_same(a->source, b->source, false);
  }
  if (a->kind == Kind::Method && b->kind == Kind::Method)
    throw Break{BreakId::unknown_object, "identity of bound methods"};
  return false;
}

static const char* const kCompare[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};

/// By the first items that differ, as CPython compares lists and tuples. The program's own `__eq__` may change them.
static Value* sequence_compare(Interpreter& in, int op, SequenceValue* a, SequenceValue* b) {
  auto has = [&](size_t index) { return index < a->items.size() && index < b->items.size(); };
  bool by_identity = op == Py_EQ || op == Py_NE;
  if (by_identity && a->items.size() != b->items.size()) return in.boolean(op == Py_NE);
  for (size_t i = 0; has(i); ++i) {
    Value *x = in.item(a, i), *y = in.item(b, i);
    if (same_or_equal(in, x, y)) continue;
    if (!has(i)) break;
    return by_identity ? in.boolean(op == Py_NE) : in.compare(op, x, y);
  }
  return in.compare(op, in.integer(a->items.size()), in.integer(b->items.size()));
}

static bool dicts_equal(Interpreter& in, DictValue* a, DictValue* b) {
  if (*in.length_of(a) != *in.length_of(b)) return false;
  bool ordered = a->type == &PyODict_Type && b->type == &PyODict_Type;
  auto items = mapping_items(in, a), others = ordered ? mapping_items(in, b) : items;
  for (size_t i = 0; i < items.size(); ++i) {
    auto [key, value] = items[i];
    if (ordered && !same_key(in, key, others[i].first)) return false;
    Value* other = in.dict_get(b, key);
    if (!other || !same_or_equal(in, value, other)) return false;
  }
  return true;
}

/// By identity, where the classes say nothing of each other. Null where they might.
static Value* compare_strangers(Interpreter& in, int op, Value* a, Value* b) {
  if (!are_strangers(in, op, a, b)) return nullptr;
  if (op == Py_EQ || op == Py_NE) return in.boolean(in.is_same(a, b) == (op == Py_EQ));
  static const char* const symbols[] = {"<", "<=", "==", "!=", ">", ">="};
  in.raise(PyExc_TypeError, std::string("'") + symbols[op] + "' not supported between instances of '" +
                                in.type_of(a)->tp_name + "' and '" + in.type_of(b)->tp_name + "'");
}

Value* Interpreter::compare(int op, Value* a, Value* b) {
  Nesting nesting;
  for (Value* operand : {a, b}) refuse_result(operand);
  if (a->kind == Kind::Array || b->kind == Kind::Array) {
    static const char* const kSwapped[] = {"__gt__", "__ge__", "__eq__", "__ne__", "__lt__", "__le__"};
    return array_binary(*this, kCompare[op], kSwapped[op], a, b);
  }
  static const int kReflected[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  bool by_class = is_by_class(*this, a, b, {kCompare[op], kCompare[kReflected[op]]});
  if ((a->kind == Kind::Tensor || b->kind == Kind::Tensor) && !by_class) {
    if (is_number(a)) return compare(kReflected[op], b, a);
    Value* const operands[] = {a, b};
    return apply(operands, kCompare[op], [&](PyObject* const* x) { return PyObject_RichCompare(x[0], x[1], op); });
  }
  if (a->kind == Kind::Text || b->kind == Kind::Text) needs_number("is compared as text");
  if (is_number(a) || is_number(b))
    if (Value* result = number_compare(*this, op, a, b)) return result;
  if (a->kind == Kind::Constant && b->kind == Kind::Constant)
    return pure_result(*this, PyObject_RichCompare(constant_of(a), constant_of(b), op));
  if (by_class) {
    static PyObject* const plain[] = {known_object("builtins.object.__lt__"), known_object("builtins.object.__le__"),
                                      known_object("builtins.object.__eq__"), known_object("builtins.object.__ne__"),
                                      known_object("builtins.object.__gt__"), known_object("builtins.object.__ge__")};
    bool subclass_first = type_of(a) != type_of(b) && PyType_IsSubtype(type_of(b), type_of(a));
    std::tuple<Value*, Value*, int> order[] = {{a, b, op}, {b, a, kReflected[op]}};
    if (subclass_first) std::swap(order[0], order[1]);
    for (auto [self, other, which] : order) {
      if (!has_special_methods(self)) {
        if (Value* result = built_in_answer(*this, kCompare[which], self, other,
                                            [&](Value* part) { return compare(which, self, part); }))
          return result;
        continue;
      }
      PyTypeObject* type = type_of(self);
      guard_class(type);
      Ref name = Ref::steal(PyUnicode_InternFromString(kCompare[which]));
      PyObject* found = _PyType_Lookup(type, name.get());
      if (which == Py_NE && found == plain[Py_NE]) {
        Ref eq = Ref::steal(PyUnicode_InternFromString("__eq__"));
        if (_PyType_Lookup(type, eq.get()) == plain[Py_EQ]) continue;
        // object.__ne__ turns around what __eq__ says.
        if (Value* equal = try_special(*this, self, "__eq__", other)) return boolean(!truth(equal));
        continue;
      }
      if (!found || found == plain[which]) continue;
      if (Value* result = try_special(*this, self, kCompare[which], other)) return result;
    }
    if (op == Py_EQ || op == Py_NE) return boolean(is_same(a, b) == (op == Py_EQ));
    static const char* const symbols[] = {"<", "<=", "==", "!=", ">", ">="};
    raise(PyExc_TypeError, std::string("'") + symbols[op] + "' not supported between instances of '" +
                               type_of(a)->tp_name + "' and '" + type_of(b)->tp_name + "'");
  }
  // A tuple of literals may stand as one constant.
  auto opened = [&](Value* value) {
    return value->kind == Kind::Constant && type_of(value) == &PyTuple_Type ? tuple(unpack(value)) : as_sequence(value);
  };
  const Nesting level;
  SequenceValue *x = opened(a), *y = opened(b);
  if (x && y && x->kind == y->kind) return sequence_compare(*this, op, x, y);
  if (auto* c = as<DictValue>(a), *d = as<DictValue>(b); c && d && (op == Py_EQ || op == Py_NE))
    return boolean(dicts_equal(*this, c, d) == (op == Py_EQ));
  if (SetValue* s = set_operand(*this, a))
    if (SetValue* t = set_operand(*this, b)) return boolean(set_compare(*this, op, s, t));
  Ref p = literal_of(a), q = literal_of(b);
  if (p && q) return pure_result(*this, PyObject_RichCompare(p.get(), q.get(), op));
  if (Value* result = compare_strangers(*this, op, a, b)) return result;
  if ((op == Py_EQ || op == Py_NE) && (a->kind == Kind::Function || b->kind == Kind::Function))
    return boolean(is_same(a, b) == (op == Py_EQ));
  if ((op == Py_EQ || op == Py_NE) && a->kind != b->kind && (a->kind == Kind::Constant || b->kind == Kind::Constant)) {
    Value* known = a->kind == Kind::Constant ? a : b;
    PyTypeObject* type = type_of(known);
    if (is_literal_type(type) && type != size_type()) return boolean(op == Py_NE);
    if (PyType_Check(constant_of(known))) return boolean(op == Py_NE);
  }
  throw Break{BreakId::unknown_object, std::string("comparison ") + kCompare[op]};
}

/// What cannot be iterated is complained of in the words of `in`.
static Value* iterate_to_find(Interpreter& in, Value* container) {
  Frame* frame = in.frame;
  const int depth = in.depth;
  try {
    return in.iterate(container);
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_TypeError)) throw;
  }
  in.frame = frame;
  in.depth = depth;
  in.raise(PyExc_TypeError, std::string("argument of type '") + in.type_of(container)->tp_name + "' is not iterable");
}

bool Interpreter::contains(Value* container, Value* item) {
  if (auto* dict = as<DictValue>(container)) return dict_get(dict, item) != nullptr;
  if (auto* view = as<ViewValue>(container); view && view->part == ViewValue::Part::Keys)
    return dict_get(view->dict, item) != nullptr;
  if (auto* sequence = as_sequence(container)) {
    for (size_t i = 0; i < sequence->items.size(); ++i)
      if (same_or_equal(*this, this->item(sequence, i), item)) return true;
    return false;
  }
  if (auto* set = as<SetValue>(container)) return set_has(*this, set, item);
  bool own_class = container->kind == Kind::Constant && !static_cast<ConstantValue*>(container)->literal &&
                   !PyType_IsSubtype(type_of(container), enum_meta_type());
  if (container->kind == Kind::Object || own_class) {
    Value* method = special(*this, container, "__contains__");
    if (method) {
      CallArgs args;
      args.positional = {item};
      return truth(call(method, std::move(args)));
    }
  }
  if (container->kind == Kind::Tensor) throw Break{BreakId::data_dependent, "membership in a tensor"};
  if (container->kind == Kind::Constant) {
    Ref key = literal_of(item);
    PyObject* object = constant_of(container);
    if (!key && PyFrozenSet_CheckExact(object))
      return set_has(*this, set_from(*this, container, &PyFrozenSet_Type), item);
    if (!key && (PyUnicode_Check(object) || PyBytes_Check(object)))
      throw Break{BreakId::raises, std::string("an instance in a ") + Py_TYPE(object)->tp_name};
    if (key && static_cast<ConstantValue*>(container)->literal) {
      refuse_unequal_to_itself(key.get());
      int found = PySequence_Contains(object, key.get());
      if (found < 0) raise_current(*this);
      return found;
    }
    if (key && PyType_Check(object) && PyType_IsSubtype(Py_TYPE(object), enum_meta_type())) {
      int found = PySequence_Contains(object, key.get());
      if (found < 0) raise_current(*this);
      return found;
    }
  }
  Value* iterator = iterate_to_find(*this, container);
  while (Value* candidate = next(iterator))
    if (same_or_equal(*this, candidate, item)) return true;
  return false;
}

Value* tensor_length(Interpreter& in, TensorValue* tensor) {
  if (Value* length = symbolic_length(in, tensor)) return length;
  PyObject* fake = in.fake_of(tensor);
  return in.torch_result(
      [&]() -> PyObject* {
        Py_ssize_t length = PyObject_Size(fake);
        return length < 0 ? nullptr : PyLong_FromSsize_t(length);
      },
      "len");
}

std::optional<Py_ssize_t> Interpreter::length_of(Value* value) {
  switch (value->kind) {
    case Kind::Tuple:
    case Kind::List:
      return static_cast<SequenceValue*>(value)->items.size();
    case Kind::Dict: {
      auto* dict = static_cast<DictValue*>(value);
      if (dict->outside && !dict->mutated) {
        guard(dict->source, FactKind::Length, nullptr, PyDict_GET_SIZE(dict->outside.get()));
        return PyDict_GET_SIZE(dict->outside.get());
      }
      return dict->live;
    }
    case Kind::View:
      return length_of(static_cast<ViewValue*>(value)->dict);
    case Kind::Set:
      return set_size(static_cast<SetValue*>(value));
    case Kind::Array:
      return PyLong_AsSsize_t(constant_of(array_method(*this, "__len__", {value})));
    case Kind::Constant: {
      Py_ssize_t length = PyObject_Size(constant_of(value));
      if (length < 0) raise_current(*this);
      return length;
    }
    case Kind::Tensor: {
      auto* tensor = static_cast<TensorValue*>(value);
      if (is_asked(*this, tensor, "__len__")) return special_length(*this, value);
      Value* length = tensor_length(*this, tensor);
      if (is_number(length)) needs_number("as a length");
      return PyLong_AsSsize_t(constant_of(length));
    }
    case Kind::Text:
      needs_number("is in a text whose length is asked for");
    case Kind::Object:
      return special_length(*this, value);
    default:
      return std::nullopt;
  }
}

}  // namespace stator::capture
