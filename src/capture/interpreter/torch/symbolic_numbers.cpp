#include "capture/interpreter/torch/symbolic_numbers.h"

#include <algorithm>

#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/trial.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

// Operators by BinaryOp; null: a graph can't compute it.
constexpr const char* kBinary[] = {"add",   nullptr, "floordiv", nullptr, nullptr,   "mul",  "mod",
                                   nullptr, "pow",   nullptr,    "sub",   "truediv", nullptr};
constexpr const char* kCompare[] = {"lt", "le", "eq", "ne", "gt", "ge"};

/// The object that represents a number in calls of the tracer; null for other values.
PyObject* number_object(Interpreter& in, Value* value) {
  if (auto* number = as<NumberValue>(value)) return number->symbol.get();
  if (value->kind != Kind::Constant) return nullptr;
  PyTypeObject* type = in.type_of(value);
  bool plain = type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type;
  return plain ? in.constant_of(value) : nullptr;
}

bool needs_value(PyObject* spec) {
  // The format 'c' makes a character, whose validity depends on the number.
  Py_ssize_t length = PyUnicode_GET_LENGTH(spec);
  return length > 0 && PyUnicode_READ_CHAR(spec, length - 1) == 'c';
}

}  // namespace

/// Adds the numbers of which the value, a number or a text, is made.
static void collect_numbers(const Value* value, std::vector<PyObject*>& into) {
  if (value->kind == Kind::Number) into.push_back(static_cast<const NumberValue*>(value)->symbol.get());
  if (value->kind == Kind::Text)
    for (const Value* part : static_cast<const TextValue*>(value)->arguments) collect_numbers(part, into);
  if (value->kind == Kind::Tuple)
    for (const Value* part : static_cast<const SequenceValue*>(value)->items)
      if (part) collect_numbers(part, into);
}

void needs_number(Interpreter& in, const Value* value, const std::string& what) {
  std::vector<PyObject*> numbers;
  collect_numbers(value, numbers);
  // A number that follows from sizes of inputs: the capture specialises on those.
  if (std::string sizes = in.torch.tracer.sizes_in(numbers); !sizes.empty()) throw Break{BreakId::varying, sizes};
  throw Break{BreakId::data_dependent, "a number that depends on data " + what};
}

std::optional<bool> number_truth(Interpreter& in, const Value* value) {
  auto* number = as<NumberValue>(const_cast<Value*>(value));
  return number ? in.torch.tracer.truth_of(number->symbol.get()) : std::nullopt;
}

Value* symbolic_number(Interpreter& in, PyObject* object) {
  PyTypeObject* type = TorchTracer::number_type(object);
  return type ? in.arena.make<NumberValue>(type, Ref::borrow(object)) : nullptr;
}

static bool reads_items_of(Interpreter& in, TensorValue* tensor) {
  return in.options.reads_items && tensor->source && !in.torch.tracer.is_written(in.fake_of(tensor));
}

/// The only integer in an input tensor, guarded; null as `known_integers` gives it.
static Value* known_integer(Interpreter& in, TensorValue* tensor) {
  auto item = reads_items_of(in, tensor) ? whole_item(tensor->real.get()) : std::nullopt;
  if (!item) return nullptr;
  in.guards.add(tensor->source, FactKind::Item, nullptr, *item);
  return TorchTracer::holds_truth(in.fake_of(tensor)) ? in.boolean(*item != 0) : in.integer(*item);
}

/// Raises the error of a method that makes a number of one element, if the tensor has more or none.
static void refuse_several(Interpreter& in, TensorValue* tensor, const std::string& method) {
  PyObject* fake = in.fake_of(tensor);
  if (TorchTracer::has_symbolic_sizes(fake) || TorchTracer::element_count(fake) == 1) return;
  raise_on_trial(in, std::span(&fake, 1),
                 [&](PyObject* const* x) { return PyObject_CallMethod(x[0], method.c_str(), nullptr); });
}

Value* known_integers(Interpreter& in, TensorValue* tensor) {
  if (Value* known = known_integer(in, tensor)) return known;
  Ref items = reads_items_of(in, tensor) ? whole_items(tensor->real.get()) : Ref();
  if (!items) return nullptr;
  in.guards.add(tensor->source, FactKind::Items, items.get());
  return in.constant(std::move(items));
}

Value* tensor_number(Interpreter& in, TensorValue* tensor) {
  PyObject* fake = in.fake_of(tensor);
  if (in.frames.in_transform() || tensor->wrapped_at)
    throw Break{BreakId::data_exit, "Tensor.item: within a transform"};
  if (Value* known = known_integer(in, tensor)) return known;
  refuse_several(in, tensor, "item");
  in.torch.locate();
  Ref number = in.torch.tracer.item(fake);
  if (!number) throw Break{BreakId::data_exit, "Tensor.item: " + in.torch.tracer.failure()};
  return symbolic_number(in, number.get());
}

PyObject* number_fake(Interpreter& in, NumberValue* number) {
  if (!number->fake) {
    if (in.frames.current()) in.torch.locate();
    number->fake = in.torch.tracer.number_fake(number->symbol.get());
    if (!number->fake) throw Break{BreakId::data_dependent, in.torch.tracer.failure()};
  }
  return number->fake.get();
}

Value* number_result(Interpreter& in, const char* op, Value* a, Value* b) {
  PyObject *x = number_object(in, a), *y = b ? number_object(in, b) : nullptr;
  auto need = [&](const std::string& why) {
    needs_number(in, in.tuple(b ? std::vector{a, b} : std::vector{a}), std::string("in ") + op + why);
  };
  if (!x || (b && !y)) need(" with something else");
  bool can_fail = false;
  Ref result = in.torch.tracer.number_result(op, x, y, &can_fail);
  if (!result) need(": " + in.torch.tracer.failure());
  // If the graph fails the program itself runs, so the graph must not have written anything before.
  if (can_fail && !in.options.may_assume) {
    if (!in.torch.tracer.guard_number(result.get())) need(", which may fail after a write");
    can_fail = false;
  }
  Value* number = symbolic_number(in, result.get());
  if (!number) return in.constant(std::move(result));
  // Recorded here even if it is not used, so that the graph fails where Python would raise.
  if (can_fail) number_fake(in, static_cast<NumberValue*>(number));
  return number;
}

Value* number_binary(Interpreter& in, int op, Value* a, Value* b) {
  const char* name = kBinary[pycompat::plain_form(op)];
  if (!name) needs_number(in, in.tuple({a, b}), "in an operator that a graph does not compute");
  return number_result(in, name, a, b);
}

Value* number_unary(Interpreter& in, pycompat::Op op, NumberValue* value) {
  using pycompat::Op;
  if (op == Op::UNARY_NOT) return number_result(in, "not", value);
  if (op == Op::UNARY_NEGATIVE) return number_result(in, "neg", value);
  if (op == Op::UNARY_POSITIVE && value->type != &PyBool_Type) return value;
  needs_number(in, value, "in an operator that a graph does not compute");
}

Value* number_compare(Interpreter& in, int op, Value* a, Value* b) {
  Value* other = is_symbolic_number(a) ? b : a;
  if (number_object(in, other)) return number_result(in, kCompare[op], a, b);
  if (other->kind == Kind::Constant && in.type_of(other) != &PyComplex_Type && (op == Py_EQ || op == Py_NE))
    return nullptr;
  needs_number(in, in.tuple({a, b}), "compared with something else");
}

Value* number_conversion(Interpreter& in, const char* op, Value* value) {
  if (auto* tensor = as<TensorValue>(value)) {
    refuse_several(in, tensor, std::string("__") + op + "__");
    return number_result(in, op, tensor_number(in, tensor));
  }
  return is_symbolic_number(value) ? number_result(in, op, value) : nullptr;
}

Value* number_text(Interpreter& in, NumberValue* number, int conversion, Value* spec) {
  static PyObject* const makers[] = {known_object("builtins.format"), known_object("builtins.str"),
                                     known_object("builtins.repr"), known_object("builtins.ascii")};
  Value* text = number;
  if (conversion != 0) text = in.arena.make<TextValue>(Ref::borrow(makers[conversion]), std::vector<Value*>{number});
  if (conversion != 0 && !spec) return text;
  std::vector<Value*> arguments = {text};
  if (spec) {
    PyObject* how = in.constant_of(spec);
    if (!how || !PyUnicode_Check(how) || needs_value(how))
      needs_number(in, number, "formatted in a way that depends on it");
    // A format specification that fails for one number is a break; one that works, works for all of the type.
    Ref sample = conversion != 0 ? Ref::steal(PyUnicode_FromString("0"))
                                 : Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(number->type)));
    Ref shown = Ref::steal(PyObject_Format(sample.get(), how));
    PyErr_Clear();
    if (!shown) throw Break{BreakId::raises, "a format that a number does not have"};
    arguments.push_back(spec);
  }
  return in.arena.make<TextValue>(Ref::borrow(makers[0]), std::move(arguments));
}

Value* symbolic_length(Interpreter& in, TensorValue* tensor) {
  PyObject* fake = in.fake_of(tensor);
  if (!TorchTracer::has_symbolic_sizes(fake)) return nullptr;
  return in.torch_result([&] { return PyObject_CallMethod(fake, "size", "i", 0); }, "len");
}

Value* joined_text(Interpreter& in, const std::vector<Value*>& parts) {
  static PyObject* const join = [] {
    Ref empty = Ref::steal(PyUnicode_FromString(""));
    return PyObject_GetAttrString(empty.get(), "join");
  }();
  return in.arena.make<TextValue>(Ref::borrow(join), std::vector<Value*>{in.tuple(parts)});
}

}  // namespace stator::capture
