#include "capture/interpreter/protocol/varying_numbers.h"

#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/input_sizes.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
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

OpaqueValue* as_made(Value* value) {
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

/// A float or int of the program, not one computed from such.
ConstantValue* varying_number(Interpreter& in, Value* value) {
  auto* constant = as<ConstantValue>(value);
  return constant && number_class(value) && is_varying(in, value) ? constant : nullptr;
}

ConstantValue* varying_float(Interpreter& in, Value* value) {
  ConstantValue* constant = varying_number(in, value);
  return constant && PyFloat_CheckExact(constant->object.get()) ? constant : nullptr;
}

/// The symbol of the graph's next input, which is the number; null if a graph does not take it.
Ref input_symbol(Interpreter& in, const ConstantValue& constant) {
  const std::string name = constant.source->describe();
  if (PyFloat_CheckExact(constant.object.get())) return in.torch.tracer.add_number_input(name);
  int overflow = 0;
  const long long hint = PyLong_AsLongLongAndOverflow(constant.object.get(), &overflow);
  if (overflow == 0) return in.torch.tracer.add_number_input(name, hint);
  // A smaller int may be an input.
  const Ref bound = Ref::steal(PyLong_FromLongLong(overflow > 0 ? INT64_MAX : INT64_MIN));
  in.guards.add(constant.source, FactKind::Compares, bound.get(), (overflow > 0 ? Py_GT : Py_LT) * 2 + 1);
  return {};
}

/// The graph's input for the number; the constant itself if a graph does not take it.
Value* number_input(Interpreter& in, ConstantValue* constant) {
  in.guards.add_type(constant->source, Py_TYPE(constant->object.get()));
  Ref symbol = input_symbol(in, *constant);
  if (!symbol) return constant;
  constant->source->loaded = true;
  auto* input = in.arena.make<TensorValue>(Ref(), TorchTracer::tensor_type());
  input->real = constant->object;
  input->source = constant->source;
  in.torch.inputs.push_back(input);
  constant->number = symbolic_number(in, symbol.get());
  if (in.start.spec() && in.start.spec()->has_varying_int(*constant->source))
    assume_spec(in, *constant->source, {constant->number});
  return constant->number;
}

/// Whether it is a known number other than 0 that converts to a float without overflow.
bool is_plain_number(Interpreter& in, Value* value) {
  double number = PyFloat_AsDouble(in.constant_of(value));
  if (PyErr_Occurred()) PyErr_Clear();
  constexpr double kExact = 1e15;
  return number != 0 && number > -kExact && number < kExact;
}

}  // namespace

Value* graph_number(Interpreter& in, Value* value) {
  if (value->kind != Kind::Constant && value->kind != Kind::Opaque) return value;
  if (in.frames.in_transform()) return value;  // functorch does not know symbolic numbers
  if (OpaqueValue* made = as_made(value)) {
    if (made->as_number) return made->as_number;
    for (const Row& row : kRows) {
      if (made->callable.get() != known_object(row.path)) continue;
      Value *a = graph_number(in, made->arguments[0]), *b = graph_number(in, made->arguments[1]);
      const bool is_graphs = is_symbolic_number(a) || is_symbolic_number(b);
      return is_graphs ? made->as_number = number_binary(in, row.op, a, b) : value;
    }
    return value;
  }
  ConstantValue* constant = varying_number(in, value);
  if (!constant || !in.start.is_input(constant->source)) return value;
  return constant->number ? constant->number : number_input(in, constant);
}

void number_operands(Interpreter& in, Value*& a, Value*& b) {
  auto is_graphs = [](const Value* value) { return value->kind == Kind::Tensor || is_symbolic_number(value); };
  if (is_graphs(b)) a = graph_number(in, a);
  if (is_graphs(a)) b = graph_number(in, b);
}

bool make_numbers(Interpreter& in, Value*& a, Value*& b) {
  auto is_number = [](Value* value) {
    auto* constant = as<ConstantValue>(value);
    return number_class(value) || (constant && PyBool_Check(constant->object.get()));
  };
  if (!is_number(a) || !is_number(b)) return false;
  a = graph_number(in, a);
  b = graph_number(in, b);
  return is_symbolic_number(a) || is_symbolic_number(b);
}

/// Whether `a` is a varying number and `b` a literal of a class whose objects never equal a number.
static bool never_equal(Interpreter& in, Value* a, Value* b) {
  auto* literal = as<ConstantValue>(b);
  if (!literal || !literal->literal || !varying_number(in, a)) return false;
  PyTypeObject* type = Py_TYPE(literal->object.get());
  return type == Py_TYPE(Py_None) || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyTuple_Type;
}

std::optional<bool> varying_comparison(Interpreter& in, int op, Value* a, Value* b) {
  constexpr int kReflected[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  if ((op == Py_EQ || op == Py_NE) && (never_equal(in, a, b) || never_equal(in, b, a))) {
    in.type_of(a);
    in.type_of(b);
    return op == Py_NE;
  }
  ConstantValue *left = varying_float(in, a), *right = varying_float(in, b);
  if (!left == !right) return {};
  Value* other = left ? b : a;
  if (!number_class(other) || is_varying(in, other)) return {};
  ConstantValue* varies = left ? left : right;
  PyObject* known = in.constant_of(other);
  const int asked = left ? op : kReflected[op];
  const Ref answer = Ref::steal(PyObject_RichCompare(varies->object.get(), known, asked));
  if (!answer) throw Break{BreakId::internal, take_error_text()};
  const bool holds = answer.get() == Py_True;
  in.guards.add_type(varies->source, &PyFloat_Type);
  in.guards.add(varies->source, FactKind::Compares, known, asked * 2 + (holds ? 1 : 0));
  return holds;
}

Value* varying_as(Interpreter& in, Value* value, PyTypeObject* type) {
  if (const OpaqueValue* made = as_made(value)) return made->number == type ? value : nullptr;
  ConstantValue* constant = varying_number(in, value);
  if (!constant || Py_TYPE(constant->object.get()) != type) return nullptr;
  in.guards.add_type(constant->source, type);
  return constant;
}

/// Adds the sources of the varying numbers of which the value is computed, separated by commas.
static void name_sources(Interpreter& in, Value* value, std::string& text) {
  if (const OpaqueValue* made = as_made(value)) {
    for (Value* argument : made->arguments) name_sources(in, argument, text);
  } else if (auto* number = as<NumberValue>(value)) {
    const std::string sizes = in.torch.tracer.sizes_in({number->symbol.get()});
    text += (text.empty() || sizes.empty() ? "" : ", ") + sizes;
  } else if (value->source && is_varying(in, value)) {
    text += (text.empty() ? "" : ", ") + value->source->describe();
  }
}

void refuse_result(Interpreter& in, Value* value) {
  if (!as_made(value)) return;
  std::string sources;
  name_sources(in, value, sources);
  if (sources.empty()) throw Break{BreakId::data_dependent, "a number that follows from one that depends on data"};
  throw Break{BreakId::varying, sources};
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
  // A number of the graph is an operand where the other one is made by the plan.
  auto class_of = [](Value* value) {
    auto* number = as<NumberValue>(value);
    return number && number->type != &PyBool_Type ? number->type : number_class(value);
  };
  PyTypeObject *left = class_of(a), *right = class_of(b);
  bool left_varies = left && (is_symbolic_number(a) || is_varying(in, a)),
       right_varies = right && (is_symbolic_number(b) || is_varying(in, b));
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
      if (operand->source) in.guards.add_type(operand->source, class_of(operand));
      if (!is_symbolic_number(operand) && !is_varying(in, operand)) in.constant_of(operand);
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
