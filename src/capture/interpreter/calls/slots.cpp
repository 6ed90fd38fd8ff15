// Special methods of built-in classes that a program calls by name.
#include "capture/interpreter/calls/slots.h"

#include <cstring>

#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

struct SlotRow {
  const char* name;
  size_t arguments;  // `self` counts
  Model model;
};

Value* not_implemented(Interpreter& in) { return in.constant(Py_NotImplemented); }

Value* contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.contains(args.positional[0], args.positional[1]));
}
Value* iterate(Interpreter& in, CallArgs& args) { return in.iterate(args.positional[0]); }
Value* next(Interpreter& in, CallArgs& args) {
  if (Value* item = in.next(args.positional[0])) return item;
  raise_stop_iteration(in);
}
Value* length(Interpreter& in, CallArgs& args) { return in.integer(*in.length_of(args.positional[0])); }
Value* hash(Interpreter& in, CallArgs& args) {
  bool exact = true;
  Py_hash_t number = key_hash(in, args.positional[0], &exact);
  if (!exact) throw Break{BreakId::unknown_call, "the hash of an object that is hashed by its address"};
  return in.integer(number);
}
template <int conversion>
Value* text(Interpreter& in, CallArgs& args) {
  return in.format(args.positional[0], conversion, nullptr);
}

template <int op>
Value* compare(Interpreter& in, CallArgs& args) {
  Value *a = args.positional[0], *b = args.positional[1];
  // The operator would also try the reflected method of an instance.
  if (b->kind == Kind::Object) return nullptr;
  if (!compare_by_identity(in, op, a, b)) return in.compare(op, a, b);
  bool same = (op == Py_EQ || op == Py_NE) && in.is_same(a, b);
  return same ? in.boolean(op == Py_EQ) : not_implemented(in);
}

bool is_set(Interpreter& in, Value* value) {
  return value->kind == Kind::Set || (value->kind == Kind::Constant && in.type_of(value) == &PyFrozenSet_Type);
}
/// Methods of sets accept sets only. Those of dict views accept any iterable; only sets and views are handled here.
template <int op, bool reflected = false>
Value* combine(Interpreter& in, CallArgs& args) {
  Value *a = args.positional[0], *b = args.positional[1];
  bool from_view = a->kind == Kind::View;
  if (!from_view && !is_set(in, a)) return nullptr;
  if (!is_set(in, b) && !(from_view && b->kind == Kind::View)) return from_view ? nullptr : not_implemented(in);
  return reflected ? in.binary(op, b, a) : in.binary(op, a, b);
}

using enum pycompat::BinaryOp;

constexpr SlotRow kRows[] = {
    {"__contains__", 2, contains},
    {"__iter__", 1, iterate},
    {"__next__", 1, next},
    {"__len__", 1, length},
    {"__hash__", 1, hash},
    {"__repr__", 1, text<2>},
    {"__str__", 1, text<1>},
    {"__lt__", 2, compare<Py_LT>},
    {"__le__", 2, compare<Py_LE>},
    {"__eq__", 2, compare<Py_EQ>},
    {"__ne__", 2, compare<Py_NE>},
    {"__gt__", 2, compare<Py_GT>},
    {"__ge__", 2, compare<Py_GE>},
    {"__and__", 2, combine<kAnd>},
    {"__or__", 2, combine<kOr>},
    {"__sub__", 2, combine<kSubtract>},
    {"__xor__", 2, combine<kXor>},
    {"__rand__", 2, combine<kAnd, true>},
    {"__ror__", 2, combine<kOr, true>},
    {"__rsub__", 2, combine<kSubtract, true>},
    {"__rxor__", 2, combine<kXor, true>},
    {"__iand__", 2, combine<kAnd + kInPlace>},
    {"__ior__", 2, combine<kOr + kInPlace>},
    {"__isub__", 2, combine<kSubtract + kInPlace>},
    {"__ixor__", 2, combine<kXor + kInPlace>},
};

bool is_built_in(const Value* value) {
  switch (value->kind) {
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Constant:
      return true;
    default:
      return false;
  }
}

/// Whether it is a function or method, in Python or C: calling its `__call__` is calling it.
bool is_plain_callable(const Value* value) {
  const PyObject* constant =
      value->kind == Kind::Constant ? static_cast<const ConstantValue*>(value)->object.get() : nullptr;
  return value->kind == Kind::Function || value->kind == Kind::Method || (constant && !PyType_Check(constant));
}

}  // namespace

Value* call_slot(Interpreter& in, PyObject* callable, CallArgs& args) {
  if (Py_TYPE(callable) != &PyWrapperDescr_Type || args.positional.empty()) return nullptr;
  Value* self = args.positional[0];
  auto* wrapper = reinterpret_cast<PyWrapperDescrObject*>(callable);
  // The operator would use the method of the value's own class.
  if (look_up(in.type_of(self), PyDescr_NAME(wrapper)) != callable) return nullptr;
  if (std::strcmp(wrapper->d_base->name, "__call__") == 0 && is_plain_callable(self)) {
    args.positional.erase(args.positional.begin());
    return in.call(self, std::move(args));
  }
  if (!is_built_in(self) || !args.keywords.empty()) return nullptr;
  for (const SlotRow& row : kRows)
    if (std::strcmp(row.name, wrapper->d_base->name) == 0 && row.arguments == args.positional.size())
      return row.model(in, args);
  return nullptr;
}

}  // namespace stator::capture
