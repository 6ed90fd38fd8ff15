#include "capture/interpreter/protocol/varying_numbers.h"

#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

using enum pycompat::BinaryOp;

/// An operator on numbers. A divisor must be a constant other than 0.
struct Row {
  int op;
  const char* path;
  bool divides, ints;  // `ints`: also for two ints
};
constexpr Row kRows[] = {
    {kAdd, "_operator.add", false, true},
    {kSubtract, "_operator.sub", false, true},
    {kMultiply, "_operator.mul", false, true},
    {kRemainder, "_operator.mod", true, true},
    {kFloorDivide, "_operator.floordiv", true, true},
    {kTrueDivide, "_operator.truediv", true, false},
};

const OpaqueValue* as_made(Value* value) {
  auto* opaque = as<OpaqueValue>(value);
  return opaque && opaque->number ? opaque : nullptr;
}

/// int or float exactly, else null.
PyTypeObject* number_class(Value* value) {
  if (auto* made = as_made(value)) return made->number;
  auto* constant = as<ConstantValue>(value);
  PyTypeObject* type = constant ? Py_TYPE(constant->object.get()) : nullptr;
  return type == &PyLong_Type || type == &PyFloat_Type ? type : nullptr;
}

bool is_varying(Interpreter& in, Value* value) {
  if (as_made(value)) return true;
  auto* constant = as<ConstantValue>(value);
  return constant && constant->source && !constant->guarded && in.start.is_varying(constant->source);
}

/// Whether it is a known number other than 0 that converts to a float without overflow.
bool is_plain_number(Interpreter& in, Value* value) {
  double number = PyFloat_AsDouble(in.constant_of(value));
  if (PyErr_Occurred()) PyErr_Clear();
  constexpr double kExact = 1e15;
  return number != 0 && number > -kExact && number < kExact;
}

}  // namespace

void refuse_result(const Value* value) {
  if (value->kind == Kind::Opaque && static_cast<const OpaqueValue*>(value)->number)
    throw Break{BreakId::varying, "a number computed from one"};
}

bool append_unseen(Interpreter& in, Value* list, Value* item) {
  auto* unseen = as<ObjectValue>(list);
  if (!unseen || unseen->type != &PyList_Type || !unseen->object) return false;
  in.effects.note_change();
  if (in.effects.is_frozen(unseen))
    throw Break{BreakId::mutation, "a change that a recomputed checkpoint would make again"};
  in.replay_method(unseen, "append", {item});
  return true;
}

Value* varying_result(Interpreter& in, int op, Value* a, Value* b) {
  PyTypeObject *left = number_class(a), *right = number_class(b);
  bool left_varies = left && is_varying(in, a), right_varies = right && is_varying(in, b);
  if (!left || !right || !(left_varies || right_varies)) return nullptr;
  const int plain = pycompat::plain_form(op);
  for (const Row& row : kRows) {
    if (row.op != plain) continue;
    bool ints = left == &PyLong_Type && right == &PyLong_Type;
    if ((ints && !row.ints) || (row.divides && right_varies)) return nullptr;
    // A varying int may be too large for a float.
    if (left != right && ((left == &PyLong_Type && left_varies) || (right == &PyLong_Type && right_varies)))
      return nullptr;
    for (Value* known : {left_varies ? nullptr : a, right_varies ? nullptr : b})
      if (known && (row.divides || left != right) && !is_plain_number(in, known)) return nullptr;
    for (Value* operand : {a, b}) {
      if (operand->source) in.guards.add_type(operand->source, number_class(operand));
      if (!is_varying(in, operand)) in.constant_of(operand);
    }
    auto* made = in.arena.make<OpaqueValue>("a number that changes from call to call");
    made->callable = Ref::borrow(known_object(row.path));
    made->arguments = {a, b};
    made->number = ints ? &PyLong_Type : &PyFloat_Type;
    return made;
  }
  return nullptr;
}

}  // namespace stator::capture
