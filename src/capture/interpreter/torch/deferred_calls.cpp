#include "capture/interpreter/torch/deferred_calls.h"

#include <algorithm>
#include <unordered_map>

#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/symbolic_numbers.h"

namespace stator::capture {
namespace {

enum class DeferredResult : uint8_t {
  Int,
  Text,
  Same,  // the int itself, of class int
  Ratio  // that and 1
};
/// For which symbolic ints the function does not raise. Its other arguments are tried before.
enum class IntDomain : uint8_t { Any, NotNegative, Character };

struct DeferredRow {
  const char* path;
  DeferredResult result;
  IntDomain domain = IntDomain::Any;
};
constexpr DeferredRow kDeferredRows[] = {
    {"builtins.bin", DeferredResult::Text},
    {"builtins.chr", DeferredResult::Text, IntDomain::Character},
    {"builtins.hex", DeferredResult::Text},
    {"builtins.int.__ceil__", DeferredResult::Same},
    {"builtins.int.__floor__", DeferredResult::Same},
    {"builtins.int.__index__", DeferredResult::Same},
    {"builtins.int.__int__", DeferredResult::Same},
    {"builtins.int.__round__", DeferredResult::Int},
    {"builtins.int.__trunc__", DeferredResult::Same},
    {"builtins.int.as_integer_ratio", DeferredResult::Ratio},
    {"builtins.int.bit_count", DeferredResult::Int},
    {"builtins.int.bit_length", DeferredResult::Int},
    {"builtins.int.conjugate", DeferredResult::Same},
    {"builtins.len", DeferredResult::Int},
    {"builtins.oct", DeferredResult::Text},
    {"builtins.pow", DeferredResult::Int},
    {"builtins.round", DeferredResult::Int},
    {"builtins.str.center", DeferredResult::Text},
    {"builtins.str.ljust", DeferredResult::Text},
    {"builtins.str.lower", DeferredResult::Text},
    {"builtins.str.rjust", DeferredResult::Text},
    {"builtins.str.strip", DeferredResult::Text},
    {"builtins.str.upper", DeferredResult::Text},
    {"builtins.str.zfill", DeferredResult::Text},
    {"math.comb", DeferredResult::Int, IntDomain::NotNegative},
    {"math.factorial", DeferredResult::Int, IntDomain::NotNegative},
    {"math.gcd", DeferredResult::Int},
    {"math.isqrt", DeferredResult::Int, IntDomain::NotNegative},
    {"math.lcm", DeferredResult::Int},
    {"math.perm", DeferredResult::Int, IntDomain::NotNegative},
    {"operator.index", DeferredResult::Same},
};

const DeferredRow* deferred_row(PyObject* callable) {
  static const auto& rows = *[] {
    auto* made = new std::unordered_map<PyObject*, const DeferredRow*>;
    for (const DeferredRow& row : kDeferredRows) made->emplace(known_object(row.path), &row);
    return made;
  }();
  const auto found = rows.find(callable);
  return found == rows.end() ? nullptr : found->second;
}

bool is_symbolic_int(Interpreter& in, Value* value) {
  return is_symbolic_number(value) && in.type_of(value) != &PyFloat_Type;
}

bool is_known_true(Interpreter& in, const char* op, Value* number, int64_t bound) {
  Value* truth = number_result(in, op, number, in.integer(bound));
  return is_symbolic_number(truth) ? number_truth(in, truth) == true : in.truth(truth);
}

/// Whether the number is one that the function takes; the answer is guarded.
bool is_in_domain(Interpreter& in, Value* number, IntDomain domain) {
  constexpr int64_t kLastCharacter = 0x10FFFF;
  return domain == IntDomain::Any ||
         (is_known_true(in, "ge", number, 0) &&
          (domain != IntDomain::Character || is_known_true(in, "le", number, kLastCharacter)));
}

/// Whether the call gives a result of the class with 1 for each symbolic int and "1" for each text.
bool works_for_sample(Interpreter& in, PyObject* callable, const std::vector<Value*>& values, PyTypeObject* type) {
  const Ref sample = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    Ref item = values[i]->kind == Kind::Text ? Ref::steal(PyUnicode_FromString("1"))
               : is_symbolic_number(values[i])
                   ? (in.type_of(values[i]) == &PyBool_Type ? Ref::borrow(Py_True) : Ref::steal(PyLong_FromLong(1)))
                   : in.literal_of(values[i]);
    if (!item) return false;
    PyTuple_SET_ITEM(sample.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  const Ref result = Ref::steal(PyObject_CallObject(callable, sample.get()));
  PyErr_Clear();
  return result && Py_TYPE(result.get()) == type;
}

/// Whether a `pow` of three has a modulus that is a literal, and an exponent that is not negative.
bool has_plain_exponent(Interpreter& in, const std::vector<Value*>& values) {
  if (values[2]->kind != Kind::Constant) return false;
  if (is_symbolic_number(values[1])) return is_known_true(in, "ge", values[1], 0);
  PyObject* exponent = in.constant_of(values[1]);
  int overflow = 0;
  return PyLong_Check(exponent) && PyLong_AsLongAndOverflow(exponent, &overflow) >= 0 && overflow >= 0;
}

/// `separator.join(texts)`, where some of the texts are made of numbers; null for other calls.
Value* deferred_join(Interpreter& in, PyObject* callable, const CallArgs& args) {
  auto* sequence = args.positional.size() == 2 ? as_sequence(args.positional[1]) : nullptr;
  if (!sequence || args.positional[0]->kind != Kind::Constant) return nullptr;
  std::vector<Value*> items;
  for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(in.item(sequence, i));
  if (std::ranges::none_of(items, [](const Value* item) { return item->kind == Kind::Text; })) return nullptr;
  for (Value* item : items) {
    if (item->kind == Kind::Text) continue;
    const Ref literal = in.literal_of(item);
    if (!literal || !PyUnicode_CheckExact(literal.get())) return nullptr;
  }
  return in.arena.make<TextValue>(Ref::borrow(callable),
                                  std::vector<Value*>{args.positional[0], in.tuple(std::move(items))});
}

}  // namespace

Value* deferred_call(Interpreter& in, PyObject* callable, const CallArgs& args) {
  static PyObject* const join = known_object("builtins.str.join");
  static PyObject* const power = known_object("builtins.pow");
  if (!args.keywords.empty()) return nullptr;
  if (callable == join) return deferred_join(in, callable, args);
  const DeferredRow* row = deferred_row(callable);
  if (!row) return nullptr;
  std::vector<Value*> values = args.positional;
  bool has_symbols = false;
  for (Value*& value : values) {
    value = graph_number(in, value);
    const bool is_symbolic = value->kind == Kind::Text || is_symbolic_int(in, value);
    if (!is_symbolic && value->kind != Kind::Constant) return nullptr;
    has_symbols = has_symbols || is_symbolic;
  }
  if (!has_symbols) return nullptr;
  if (callable == power && (values.size() != 3 || !has_plain_exponent(in, values))) return nullptr;
  constexpr PyTypeObject* kTypes[] = {&PyLong_Type, &PyUnicode_Type, &PyLong_Type, &PyTuple_Type};
  if (!works_for_sample(in, callable, values, kTypes[static_cast<size_t>(row->result)])) return nullptr;
  for (Value* value : values)
    if (is_symbolic_number(value) && !is_in_domain(in, value, row->domain)) return nullptr;
  if (row->result == DeferredResult::Same) return number_result(in, "int", values[0]);
  if (row->result == DeferredResult::Ratio) return in.tuple({number_result(in, "int", values[0]), in.integer(1)});
  if (row->result == DeferredResult::Text) return in.arena.make<TextValue>(Ref::borrow(callable), std::move(values));
  auto* made = in.arena.make<OpaqueValue>("a number that follows from sizes");
  made->callable = Ref::borrow(callable);
  made->arguments = std::move(values);
  made->number = &PyLong_Type;
  return made;
}

Value* deferred_attribute(Interpreter& in, Value* value, PyObject* name) {
  auto is_named = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  auto* constant = as<ConstantValue>(value);
  const bool varies = constant && PyLong_CheckExact(constant->object.get()) && constant->source && !constant->guarded &&
                      in.start.is_varying(constant->source);
  if (constant && !varies) return nullptr;
  auto* made = as<OpaqueValue>(value);
  if (made && !made->number) return nullptr;
  PyTypeObject* type = constant ? &PyLong_Type : made ? made->number : in.type_of(value);
  const bool is_int = type == &PyLong_Type || type == &PyBool_Type;
  const bool is_itself = is_int && (is_named("real") || is_named("numerator"));
  const bool is_literal = is_int && (is_named("imag") || is_named("denominator"));
  PyObject* found = look_up(type, name);
  if (!is_itself && !is_literal && !(found && deferred_row(found))) return nullptr;
  value = graph_number(in, value);
  if (!is_symbolic_int(in, value) && value->kind != Kind::Text) return nullptr;
  if (is_literal) return in.integer(is_named("imag") ? 0 : 1);
  return is_itself ? number_result(in, "int", value) : in.bind_descriptor(found, type, value, name);
}

}  // namespace stator::capture
