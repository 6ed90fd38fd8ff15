#include "capture/interpreter/torch/symbolic_numbers.h"

#include <algorithm>
#include <cstring>

#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/trial.h"
#include "capture/pycompat/binary_ops.h"
#include "core/shapes/data_scope.h"

namespace stator::capture {
namespace {

// Operators by BinaryOp; null: a graph can't compute it.
constexpr const char* kBinary[] = {"add",   "bitand", "floordiv", "lshift", nullptr,   "mul",   "mod",
                                   "bitor", "pow",    "rshift",   "sub",    "truediv", "bitxor"};
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

Value* with_known_value(Interpreter& in, Value* value) {
  if (value->kind == Kind::Opaque) value = graph_number(in, value);
  auto* number = as<NumberValue>(value);
  const auto known = number ? in.torch.tracer.value_of(number->symbol.get()) : std::nullopt;
  return known ? in.integer(*known) : value;
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
  auto item = reads_items_of(in, tensor) ? int_item(tensor->real.get()) : std::nullopt;
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
  Ref items = reads_items_of(in, tensor) ? int_items(tensor->real.get()) : Ref();
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
  if (!shapes::data_uses().numbers)
    throw Break{BreakId::data_exit, "Tensor.item: stator.config.capture_scalar_outputs is off"};
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
  if (can_fail && (!in.options.may_assume || in.options.for_python_backend)) {
    can_fail = !in.torch.tracer.guard_number(result.get());
    if (can_fail && !in.options.may_assume) need(", which may fail after a write");
    in.torch.has_unsure_numbers = in.torch.has_unsure_numbers || can_fail;
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
  // The sign of the exponent decides whether two ints give an int.
  const bool are_ints = in.type_of(a) == &PyLong_Type && in.type_of(b) == &PyLong_Type;
  if (pycompat::plain_form(op) == pycompat::kPower && are_ints && is_symbolic_number(b))
    number_truth(in, number_result(in, "ge", b, in.integer(0)));
  return number_result(in, name, a, b);
}

Value* number_unary(Interpreter& in, pycompat::Op op, NumberValue* value) {
  using pycompat::Op;
  if (op == Op::UNARY_NOT) return number_result(in, "not", value);
  if (op == Op::UNARY_NEGATIVE) return number_result(in, "neg", value);
  if (op == Op::UNARY_POSITIVE && value->type != &PyBool_Type) return value;
  if (op == Op::UNARY_INVERT && value->type == &PyLong_Type)
    return number_result(in, "sub", number_result(in, "neg", value), in.integer(1));
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

namespace {

/// Objects of the same types as values that a text is made of, or an empty vector: a value is neither a number nor a
/// literal, or none is a number. Replaces varying numbers by those of the graph.
std::vector<Ref> samples_of(Interpreter& in, std::vector<Value*>& values) {
  for (Value*& value : values) value = graph_number(in, value);
  if (std::ranges::none_of(values, [](Value* value) { return as<NumberValue>(value) != nullptr; })) return {};
  std::vector<Ref> samples;
  for (Value* value : values) {
    auto* number = as<NumberValue>(value);
    samples.push_back(number ? Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(number->type)))
                             : in.literal_of(value));
    if (!samples.back()) {
      PyErr_Clear();
      return {};
    }
  }
  return samples;
}

Ref tuple_of(const std::vector<Ref>& items) {
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].get()));
  return made;
}

/// The str object of a value that is a constant string; null for any other value.
PyObject* known_text(Interpreter& in, Value* value) {
  if (value->kind != Kind::Constant || in.type_of(value) != &PyUnicode_Type) return nullptr;
  return in.constant_of(value);
}

/// Whether each conversion of the text (`%5.2f`) shows any number: none takes names or widths from the values, makes a
/// character, or wants an int where a float is given, which may be infinite.
bool shows_any_number(const std::string& text, bool has_floats) {
  constexpr const char *kFlags = "0123456789.+-# ", *kForAll = "sraeEfFgG%", *kForInts = "diuoxX";
  for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
    at = text.find_first_not_of(kFlags, at + 1);
    if (at == std::string::npos) return false;
    const bool is_fine = std::strchr(kForAll, text[at]) || (!has_floats && std::strchr(kForInts, text[at]));
    if (!is_fine) return false;
  }
  return true;
}

/// Whether the fields of the text are `{}` or `{0}`, possibly with a conversion and a format that has no fields.
bool has_plain_fields(const std::string& text) {
  for (size_t at = 0; (at = text.find_first_of("{}", at)) != std::string::npos; ++at) {
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      ++at;
      continue;
    }
    const size_t end = text.find_first_of("{}", at + 1);
    if (text[at] != '{' || end == std::string::npos || text[end] != '}' || text[end - 1] == 'c') return false;
    const size_t name = text.find_first_not_of("0123456789", at + 1);
    if (text[name] != '}' && text[name] != '!' && text[name] != ':') return false;
    at = end;
  }
  return true;
}

bool has_floats(Interpreter& in, const std::vector<Value*>& values) {
  return std::ranges::any_of(values, [&](Value* value) { return in.type_of(value) == &PyFloat_Type; });
}

}  // namespace

Value* percent_text(Interpreter& in, Value* text, Value* values) {
  PyObject* format = known_text(in, text);
  if (!format) return nullptr;
  auto* sequence = as_sequence(values);
  if (sequence && (sequence->kind != Kind::Tuple || sequence->type != &PyTuple_Type)) return nullptr;
  std::vector<Value*> items{values};
  if (sequence) {
    items.clear();
    for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(in.item(sequence, i));
  }
  const std::vector<Ref> samples = samples_of(in, items);
  const char* shown = PyUnicode_AsUTF8(format);
  if (samples.empty() || !shown || !shows_any_number(shown, has_floats(in, items))) {
    PyErr_Clear();
    return nullptr;
  }
  const Ref sample = Ref::steal(PyUnicode_Format(format, tuple_of(samples).get()));
  PyErr_Clear();
  if (!sample) return nullptr;
  return in.arena.make<TextValue>(Ref::borrow(known_object("_operator.mod")),
                                  std::vector<Value*>{text, in.tuple(std::move(items))});
}

Value* formatted_text(Interpreter& in, Value* text, const std::vector<Value*>& values) {
  static PyObject* const function = known_object("builtins.str.format");
  PyObject* format = known_text(in, text);
  const char* shown = format ? PyUnicode_AsUTF8(format) : nullptr;
  std::vector<Value*> items = values;
  std::vector<Ref> samples = shown && has_plain_fields(shown) ? samples_of(in, items) : std::vector<Ref>{};
  if (!samples.empty()) {
    samples.insert(samples.begin(), Ref::borrow(format));
    const Ref sample = Ref::steal(PyObject_CallObject(function, tuple_of(samples).get()));
    if (!sample) samples.clear();
  }
  PyErr_Clear();
  if (samples.empty()) return nullptr;
  items.insert(items.begin(), text);
  return in.arena.make<TextValue>(Ref::borrow(function), std::move(items));
}

Value* sequence_text(Interpreter& in, SequenceValue* sequence, int conversion) {
  static PyObject* const makers[] = {known_object("builtins.str"), known_object("builtins.str"),
                                     known_object("builtins.repr"), known_object("builtins.ascii")};
  PyTypeObject* type = sequence->type;
  if (type != &PyTuple_Type && type != &PyList_Type && type != size_type()) return nullptr;
  std::vector<Value*> items;
  for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(in.item(sequence, i));
  if (samples_of(in, items).empty()) return nullptr;
  auto* copy = in.arena.make<SequenceValue>(sequence->kind, type);  // the program may change a list
  copy->items = std::move(items);
  return in.arena.make<TextValue>(Ref::borrow(makers[conversion]), std::vector<Value*>{copy});
}

Value* size_of_numbers(Interpreter& in, std::vector<Value*> items) {
  for (Value* item : items)
    if (in.type_of(item) != &PyLong_Type)
      throw Break{BreakId::unknown_call, "torch.Size of something that is not an integer"};
  auto* made = in.arena.make<SequenceValue>(Kind::Tuple, size_type());
  made->items = std::move(items);
  return made;
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
