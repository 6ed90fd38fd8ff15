// Binary and unary operators on values.
#include <algorithm>

#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/containers/merging.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/operators/mixed_operands.h"
#include "capture/interpreter/operators/special_methods.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

using enum pycompat::BinaryOp;
using pycompat::is_in_place;
using pycompat::plain_form;

/// A binary operator: its methods, and its symbols in error messages, plain and in-place.
struct BinaryRow {
  const char *method, *reflected, *in_place;
  const char *symbol, *in_place_symbol;
};

// By BinaryOp.
constexpr BinaryRow kBinary[] = {
    {"__add__", "__radd__", "__iadd__", "+", "+="},
    {"__and__", "__rand__", "__iand__", "&", "&="},
    {"__floordiv__", "__rfloordiv__", "__ifloordiv__", "//", "//="},
    {"__lshift__", "__rlshift__", "__ilshift__", "<<", "<<="},
    {"__matmul__", "__rmatmul__", "__imatmul__", "@", "@="},
    {"__mul__", "__rmul__", "__imul__", "*", "*="},
    {"__mod__", "__rmod__", "__imod__", "%", "%="},
    {"__or__", "__ror__", "__ior__", "|", "|="},
    {"__pow__", "__rpow__", "__ipow__", "** or pow()", "**="},
    {"__rshift__", "__rrshift__", "__irshift__", ">>", ">>="},
    {"__sub__", "__rsub__", "__isub__", "-", "-="},
    {"__truediv__", "__rtruediv__", "__itruediv__", "/", "/="},
    {"__xor__", "__rxor__", "__ixor__", "^", "^="},
};

struct UnaryRow {
  pycompat::Op op;
  unaryfunc function;
  const char *method, *symbol;
};
constexpr UnaryRow kUnary[] = {
    {pycompat::Op::UNARY_NEGATIVE, PyNumber_Negative, "__neg__", "-"},
    {pycompat::Op::UNARY_INVERT, PyNumber_Invert, "__invert__", "~"},
    {pycompat::Op::UNARY_POSITIVE, PyNumber_Positive, "__pos__", "+"},
};
const UnaryRow& unary_row(pycompat::Op op) { return *std::ranges::find(kUnary, op, &UnaryRow::op); }

/// Raises the TypeError of `+` and `*` for a sequence and an operand that it can't use, if the message is known.
void raise_for_sequence(Interpreter& in, int op, Value* a, Value* b) {
  PyTypeObject *left = in.type_of(a), *right = in.type_of(b);
  const std::string of = left->tp_name, other = right->tp_name;
  const bool joins = left == &PyTuple_Type || left == &PyUnicode_Type || (left == &PyList_Type && !is_in_place(op));
  if (plain_form(op) == kAdd && joins && !PyType_IsSubtype(right, left))
    in.raise(PyExc_TypeError, "can only concatenate " + of + " (not \"" + other + "\") to " + of);
  auto repeats = [](PyTypeObject* type) { return type->tp_as_sequence && type->tp_as_sequence->sq_repeat; };
  auto counts = [](PyTypeObject* type) { return type->tp_as_number && type->tp_as_number->nb_index; };
  if (plain_form(op) != kMultiply || counts(left) || counts(right)) return;
  // The in-place form tries the right operand only if the left one has no sequence slots.
  const bool asks_right = !is_in_place(op) || !left->tp_as_sequence;
  if (repeats(left) || (asks_right && repeats(right)))
    in.raise(PyExc_TypeError, "can't multiply sequence by non-int of type '" + (repeats(left) ? other : of) + "'");
}

Value* object_binary(Interpreter& in, int op, Value* a, Value* b) {
  const int plain = plain_form(op);
  const BinaryRow& row = kBinary[plain];
  const char* in_place = is_in_place(op) ? row.in_place : nullptr;
  auto ask = [&](Value* self, const char* method, Value* other, bool reflected = false) {
    if (is_of_sequence(in.type_of(self), method)) return static_cast<Value*>(nullptr);
    if (has_special_methods(self)) return ask_special(in, self, method, other);
    return built_in_answer(in, method, self, other, [&](Value* part) {
      return reflected ? in.binary(plain, part, self) : in.binary(plain, self, part);
    });
  };
  Value* result = nullptr;
  if (in_place && (result = ask(a, in_place, b))) return result;
  const bool is_one_class = in.type_of(a) == in.type_of(b);
  // A subclass on the right comes first if it overrides the reflected method.
  const bool right_first = !is_one_class && PyType_IsSubtype(in.type_of(b), in.type_of(a)) &&
                           class_lookup(in.type_of(a), row.reflected) != class_lookup(in.type_of(b), row.reflected);
  if (right_first && (result = ask(b, row.reflected, a, true))) return result;
  if ((result = ask(a, row.method, b))) return result;
  if (!right_first && !is_one_class && (result = ask(b, row.reflected, a, true))) return result;
  // Sequence slots come last, unless they would call a method that has returned NotImplemented already.
  auto ask_sequence = [&](Value* self, const char* method, Value* other) {
    if (!method || !has_special_methods(self) || !is_of_sequence(in.type_of(self), method)) return result;
    for (const char* asked : {row.method, row.reflected})
      if (has_special_methods(other) && class_lookup(in.type_of(other), asked) &&
          !is_of_sequence(in.type_of(other), asked))
        return result;
    return ask_special(in, self, method, other);
  };
  for (const char* method : {in_place, row.method})
    if ((result = ask_sequence(a, method, b))) return result;
  if ((result = ask_sequence(b, row.reflected, a))) return result;
  raise_for_sequence(in, op, a, b);
  // The message for other sequences is not known.
  for (Value* value : {a, b})
    if (in.type_of(value)->tp_as_sequence && in.type_of(value)->tp_as_sequence->sq_concat)
      throw Break{BreakId::raises, "unsupported operand types"};
  in.raise(PyExc_TypeError, std::string("unsupported operand type(s) for ") +
                                (in_place ? row.in_place_symbol : row.symbol) + ": '" + in.type_of(a)->tp_name +
                                "' and '" + in.type_of(b)->tp_name + "'");
}

Value* repeat(Interpreter& in, SequenceValue* sequence, Value* times, bool in_place) {
  PyObject* count = in.constant_of(times);
  const bool is_sequence = count && Py_TYPE(count)->tp_as_sequence && Py_TYPE(count)->tp_as_sequence->sq_repeat;
  if (count && !PyType_Check(count) && !PyIndex_Check(count) && !is_sequence)
    in.raise(PyExc_TypeError,
             std::string("can't multiply sequence by non-int of type '") + Py_TYPE(count)->tp_name + "'");
  if (!count || !PyLong_Check(count))
    throw Break{BreakId::unknown_object, "a sequence times something else than an int"};
  const Py_ssize_t n = PyNumber_AsSsize_t(count, PyExc_OverflowError);
  if (n == -1 && PyErr_Occurred()) raise_current(in);
  constexpr Py_ssize_t kMost = 1 << 20;
  const auto size = static_cast<Py_ssize_t>(sequence->items.size());
  // `t * 1` is the tuple itself.
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

/// `+` and `*` of a torch.Size, of which some operand is not a literal. Null for other operands.
Value* size_binary(Interpreter& in, int plain, Value* a, Value* b) {
  PyTypeObject *left = in.type_of(a), *right = in.type_of(b);
  auto is_size = [](const PyTypeObject* type) { return type == size_type(); };
  auto fits = [&](PyTypeObject* type) { return is_size(type) || type == &PyTuple_Type; };
  auto empty = [](PyTypeObject* type) { return Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type))); };
  if (!is_size(left) && !is_size(right)) return nullptr;
  std::vector<Value*> items;
  Ref like;  // the class of the result depends on the version of torch
  if (plain == kAdd && fits(left) && fits(right)) {
    items = in.unpack(a);
    std::vector<Value*> more = in.unpack(b);
    items.insert(items.end(), more.begin(), more.end());
    like = Ref::steal(PyNumber_Add(empty(left).get(), empty(right).get()));
  } else if (auto* size = as_sequence(is_size(left) ? a : b); size && plain == kMultiply) {
    items = static_cast<SequenceValue*>(repeat(in, size, is_size(left) ? b : a, false))->items;
    like = Ref::steal(PyNumber_Multiply(empty(size->type).get(), in.constant_of(is_size(left) ? b : a)));
  } else {
    return nullptr;
  }
  if (!like) raise_current(in);
  if (is_size(Py_TYPE(like.get()))) return size_of_numbers(in, std::move(items));
  return in.tuple(std::move(items));
}

Value* sequence_binary(Interpreter& in, int op, Value* a, Value* b) {
  const int plain = plain_form(op);
  if (Value* made = size_binary(in, plain, a, b)) return made;
  SequenceValue *x = as_sequence(a), *y = as_sequence(b);
  if (op == kInPlace + kAdd && x && x->kind == Kind::List) {
    extend_list(in, x, b);
    return x;
  }
  if (plain == kAdd && (x || y)) {
    Kind kind = x ? x->kind : y->kind;
    // One of the tuples may be a literal.
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
  if (plain == kMultiply && (x || y)) return repeat(in, x ? x : y, x ? b : a, is_in_place(op) && x);
  return nullptr;
}

Value* set_binary(Interpreter& in, int op, Value* a, Value* b) {
  const int plain = plain_form(op);
  if (plain != kAnd && plain != kOr && plain != kSubtract && plain != kXor) return nullptr;
  SetValue *x = set_operand(in, a), *y = x ? set_operand(in, b) : nullptr;
  if (!y) return nullptr;
  // A set changes in place only for another set; a view on the right makes a new set.
  if (!is_in_place(op) || x != a || x->type != &PySet_Type || b->kind == Kind::View) {
    SetValue* made = set_combine(in, plain, x, y);
    // The result is a set if either operand is a view.
    if (a->kind == Kind::View || b->kind == Kind::View) made->type = &PySet_Type;
    return made;
  }
  set_change(in, plain, x, y);
  return x;
}

/// The sum of two strings of which the plan makes one; null for other values.
Value* text_sum(Interpreter& in, Value* a, Value* b) {
  if (a->kind != Kind::Text && b->kind != Kind::Text) return nullptr;
  auto is_text = [&](Value* value) {
    return value->kind == Kind::Text || (value->kind == Kind::Constant && in.type_of(value) == &PyUnicode_Type);
  };
  return is_text(a) && is_text(b) ? joined_text(in, {a, b}) : nullptr;
}

}  // namespace

Value* Interpreter::binary(int op, Value* a, Value* b) {
  const BinaryRow& row = kBinary[plain_form(op)];
  const char* in_place = is_in_place(op) ? row.in_place : nullptr;
  const binaryfunc function = pycompat::binary_function(op);
  if (a->kind == Kind::Array || b->kind == Kind::Array)
    return array_binary(*this, in_place ? in_place : row.method, row.reflected, a, b);
  if (op == kRemainder)
    if (Value* text = percent_text(*this, a, b)) return text;
  number_operands(*this, a, b);
  if (a->kind == Kind::Tensor || b->kind == Kind::Tensor) {
    // Methods of numbers return NotImplemented for a tensor.
    bool by_class = class_decides(*this, a, b, {row.method, row.reflected, in_place});
    if (by_class || (is_symbolic_number(a) && is_overridden(*this, b))) return object_binary(*this, op, a, b);
    if (is_symbolic_number(a)) {
      if (plain_form(op) != kSubtract) return call_method(b, row.reflected, {a});
      PyObject *x = number_fake(*this, static_cast<NumberValue*>(a)), *y = fake_of(static_cast<TensorValue*>(b));
      return torch_result([&] { return PyNumber_Subtract(x, y); }, row.method);
    }
    Value* const operands[] = {a, b};
    return apply(operands, row.method, [&](PyObject* const* x) { return function(x[0], x[1]); });
  }
  const bool has_symbol = is_symbolic_number(a) || is_symbolic_number(b);
  const bool has_deferred = a->kind == Kind::Opaque || b->kind == Kind::Opaque;
  if (has_symbol && !has_deferred) return number_binary(*this, op, a, b);
  if (Value* later = varying_result(*this, op, a, b)) return later;
  if (has_symbol) return number_binary(*this, op, a, b);
  if (plain_form(op) == kAdd)
    if (Value* text = text_sum(*this, a, b)) return text;
  if (make_numbers(*this, a, b)) return number_binary(*this, op, a, b);
  for (Value* operand : {a, b}) refuse_result(*this, operand);
  if (a->kind == Kind::Constant && b->kind == Kind::Constant) {
    PyObject *x = constant_of(a), *y = constant_of(b);
    for (Value* operand : {a, b}) guard_own_state(static_cast<ConstantValue*>(operand));
    return result_or_raise(*this, function(x, y));
  }
  if (a->kind == Kind::Object || b->kind == Kind::Object) return object_binary(*this, op, a, b);
  if (Value* result = sequence_binary(*this, op, a, b)) return result;
  if (a->kind == Kind::Dict && op == kInPlace + kOr) {
    auto* dict = static_cast<DictValue*>(a);
    merge_items(*this, dict, b, dict->type == ordered_dict_type() ? each_item_for_ordered : each_item);
    return a;
  }
  if (Value* result = set_binary(*this, op, a, b)) return result;
  if (a->kind == Kind::Dict && op == kOr && b->kind == Kind::Dict) {
    // The class of the left operand decides, unless it is dict itself.
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
  return result_or_raise(*this, function(x.get(), y.get()));
}

Value* Interpreter::unary(pycompat::Op op, Value* value) {
  if (op != pycompat::Op::UNARY_NOT) value = graph_number(*this, value);
  if (auto* number = as<NumberValue>(value)) return number_unary(*this, op, number);
  if (op == pycompat::Op::UNARY_NOT) return boolean(!truth(value));
  const UnaryRow& row = unary_row(op);
  bool by_class = class_decides(*this, value, value, {row.method});
  if (value->kind == Kind::Tensor && !by_class)
    return apply(std::span(&value, 1), "unary operator", [&](PyObject* const* x) { return row.function(x[0]); });
  if (value->kind == Kind::Array) return array_method(*this, row.method, {value});
  if (by_class) {
    if (Value* method = special_method(*this, value, row.method)) return call(method, {});
    raise(PyExc_TypeError,
          std::string("bad operand type for unary ") + row.symbol + ": '" + type_of(value)->tp_name + "'");
  }
  // Flags keep what `~` gives them among their attributes: that must be there when those are guarded.
  if (auto* known = as<ConstantValue>(value); known && !known->literal) {
    Ref::steal(row.function(constant_of(known)));
    PyErr_Clear();
  }
  Ref literal = literal_of(value);
  if (!literal) throw Break{BreakId::unknown_object, "unary operator"};
  return result_or_raise(*this, row.function(literal.get()));
}

}  // namespace stator::capture
