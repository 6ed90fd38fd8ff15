// Comparison of values, by identity and by value.
#include <algorithm>
#include <iterator>

#include "capture/guards/literals.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/operators/mixed_operands.h"
#include "capture/interpreter/operators/special_methods.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/symbolic_numbers.h"

namespace stator::capture {
namespace {

/// The empty tuple is a single object.
bool is_empty_tuple(Interpreter& in, Value* value) {
  if (value->kind == Kind::Tuple)
    return static_cast<SequenceValue*>(value)->type == &PyTuple_Type &&
           static_cast<SequenceValue*>(value)->items.empty();
  return value->kind == Kind::Constant && in.type_of(value) == &PyTuple_Type &&
         PyTuple_GET_SIZE(in.constant_of(value)) == 0;
}

/// Types of torch that have one object for each value.
bool has_one_object_per_value(PyTypeObject* type) {
  static PyObject* const types[] = {known_object("torch.dtype"), known_object("torch.layout"),
                                    known_object("torch.memory_format"), known_object("torch.qscheme")};
  return std::find(std::begin(types), std::end(types), reinterpret_cast<PyObject*>(type)) != std::end(types);
}

// By Py_LT ...
constexpr const char* kCompare[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
constexpr int kReflected[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};

/// Compares lists or tuples by the first items that differ, as CPython does. An `__eq__` of the program may change the
/// sequences meanwhile.
Value* sequence_compare(Interpreter& in, int op, SequenceValue* a, SequenceValue* b) {
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

bool dicts_equal(Interpreter& in, DictValue* a, DictValue* b) {
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

[[noreturn]] void raise_unordered(Interpreter& in, int op, Value* a, Value* b) {
  static constexpr const char* kSymbols[] = {"<", "<=", "==", "!=", ">", ">="};
  in.raise(PyExc_TypeError, std::string("'") + kSymbols[op] + "' not supported between instances of '" +
                                in.type_of(a)->tp_name + "' and '" + in.type_of(b)->tp_name + "'");
}

/// The value as a sequence of values, null if it has no items. A tuple of literals may be one constant.
SequenceValue* items_of(Interpreter& in, Value* value) {
  const bool is_literal = value->kind == Kind::Constant;
  const bool is_tuple = is_literal && (in.type_of(value) == &PyTuple_Type || in.type_of(value) == size_type());
  return is_tuple ? in.tuple(in.unpack(value)) : as_sequence(value);
}

/// Compares by identity if neither class has a comparison for the other. Null if one may have.
Value* identity_comparison(Interpreter& in, int op, Value* a, Value* b) {
  if (!compare_by_identity(in, op, a, b)) return nullptr;
  if (op == Py_EQ || op == Py_NE) return in.boolean(in.is_same(a, b) == (op == Py_EQ));
  raise_unordered(in, op, a, b);
}

}  // namespace

bool Interpreter::is_same(Value* a, Value* b) {
  if (a == b) return true;
  // All weak references without callback to an object are one object.
  if (is_weak(a) && is_weak(b)) throw Break{BreakId::unknown_object, "identity of weak references"};
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
      needs_number(*this, one, "is compared by identity");
  if (x && y) {
    if (Py_TYPE(x->object.get()) != Py_TYPE(y->object.get())) {
      type_of(a);
      type_of(b);
      return false;
    }
    PyObject *p = constant_of(a), *q = constant_of(b);
    // Of these only the parts are guarded, not the identity.
    for (ConstantValue* known : {x, y})
      if (known->source && !known->literal) guards.add(known->source, FactKind::Identity, known->object.get());
    if (singleton(a) || singleton(b) || !x->literal || !y->literal) return p == q;
    if (!literal_equal(p, q)) return false;
    if (p == q && ((!x->source && !y->source) || has_one_object_per_value(Py_TYPE(p)))) return true;
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
    auto *one = as<ObjectValue>(a), *other = as<ObjectValue>(b);
    // The class of an instance is guarded.
    const bool is_known =
        one && other && ((one->identity_guarded && other->identity_guarded) || one->type != other->type);
    if (!is_known) guards.add_same(a->source, b->source, false);
  }
  if (a->kind == Kind::Method && b->kind == Kind::Method)
    throw Break{BreakId::unknown_object, "identity of bound methods"};
  return false;
}

Value* Interpreter::compare(int op, Value* a, Value* b) {
  Nesting nesting;
  if (std::optional<bool> known = varying_comparison(*this, op, a, b)) return boolean(*known);
  number_operands(*this, a, b);
  make_numbers(*this, a, b);
  for (Value* operand : {a, b}) refuse_result(*this, operand);
  if (a->kind == Kind::Array || b->kind == Kind::Array)
    return array_binary(*this, kCompare[op], kCompare[kReflected[op]], a, b);
  bool by_class = class_decides(*this, a, b, {kCompare[op], kCompare[kReflected[op]]});
  if ((a->kind == Kind::Tensor || b->kind == Kind::Tensor) && !by_class) {
    if (is_symbolic_number(a)) return compare(kReflected[op], b, a);
    Value* const operands[] = {a, b};
    return apply(operands, kCompare[op], [&](PyObject* const* x) { return PyObject_RichCompare(x[0], x[1], op); });
  }
  for (const Value* text : {a, b})
    if (text->kind == Kind::Text) needs_number(*this, text, "is compared as text");
  if (is_symbolic_number(a) || is_symbolic_number(b))
    if (Value* result = number_compare(*this, op, a, b)) return result;
  if (a->kind == Kind::Constant && b->kind == Kind::Constant) {
    PyObject *p = constant_of(a), *q = constant_of(b);
    // A method of the class, written in Python, may look at the attributes of either.
    for (PyObject* operand : {p, q})
      for (int which : {op, kReflected[op]})
        if (PyObject* method = class_lookup(Py_TYPE(operand), kCompare[which]); method && PyFunction_Check(method))
          for (Value* value : {a, b}) guard_own_state(static_cast<ConstantValue*>(value));
    return result_or_raise(*this, PyObject_RichCompare(p, q, op));
  }
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
      guards.add_class(type);
      PyObject* found = class_lookup(type, kCompare[which]);
      if (which == Py_NE && found == plain[Py_NE]) {
        if (class_lookup(type, "__eq__") == plain[Py_EQ]) continue;
        // object.__ne__ negates __eq__.
        if (Value* equal = ask_special(*this, self, "__eq__", other)) return boolean(!truth(equal));
        continue;
      }
      if (!found || found == plain[which]) continue;
      if (Value* result = ask_special(*this, self, kCompare[which], other)) return result;
    }
    if (op == Py_EQ || op == Py_NE) return boolean(is_same(a, b) == (op == Py_EQ));
    raise_unordered(*this, op, a, b);
  }
  const Nesting level;
  SequenceValue *x = items_of(*this, a), *y = items_of(*this, b);
  if (x && y && x->kind == y->kind) return sequence_compare(*this, op, x, y);
  if (auto* c = as<DictValue>(a), *d = as<DictValue>(b); c && d && (op == Py_EQ || op == Py_NE))
    return boolean(dicts_equal(*this, c, d) == (op == Py_EQ));
  if (SetValue* s = set_operand(*this, a))
    if (SetValue* t = set_operand(*this, b)) return boolean(set_compare(*this, op, s, t));
  Ref p = literal_of(a), q = literal_of(b);
  if (p && q) return result_or_raise(*this, PyObject_RichCompare(p.get(), q.get(), op));
  if (Value* result = identity_comparison(*this, op, a, b)) return result;
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
}  // namespace stator::capture
