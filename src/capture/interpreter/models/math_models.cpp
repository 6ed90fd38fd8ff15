// Functions of `math` on numbers that the graph computes, such as varying floats. Literals go to the real functions.
#include <algorithm>
#include <iterator>
#include <numbers>
#include <string_view>

#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {

/// The name of an operator of numbers (shapes::op_name), as an argument of a template.
template <size_t kLength>
struct Name {
  char text[kLength];
  constexpr Name(const char (&given)[kLength]) { std::copy_n(given, kLength, text); }  // NOLINT: made of literals
};

/// Replaces the arguments by graph numbers. False for calls that go to the real function: without such a number, or
/// with another number of arguments.
bool takes_numbers(Interpreter& in, CallArgs& args, size_t least, size_t most) {
  const size_t count = args.positional.size();
  if (!args.keywords.empty() || count < least || count > most) return false;
  bool found = false;
  for (Value*& value : args.positional) {
    if (value->kind != Kind::Number && value->kind != Kind::Constant && value->kind != Kind::Opaque) return false;
    value = graph_number(in, value);
    found = found || is_symbolic_number(value);
  }
  return found;
}

/// Whether the compilers of Python backends know the function of a symbol (`torch._sym_sqrt` and so on).
bool is_known_to_compilers(std::string_view name) {
  constexpr std::string_view kKnown[] = {"acos", "asin", "atan", "cos",  "cosh", "exp",
                                         "log2", "sin",  "sinh", "sqrt", "tan",  "tanh"};
  return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
}

template <Name kName>
Value* of_one(Interpreter& in, CallArgs& args) {
  if (in.options.for_python_backend && !is_known_to_compilers(kName.text)) return nullptr;
  return takes_numbers(in, args, 1, 1) ? number_result(in, kName.text, args.positional[0]) : nullptr;
}

template <Name kName>
Value* of_two(Interpreter& in, CallArgs& args) {
  if (in.options.for_python_backend) return nullptr;
  return takes_numbers(in, args, 2, 2) ? number_result(in, kName.text, args.positional[0], args.positional[1])
                                       : nullptr;
}

/// Whether the graph computes the function of ints: all arguments are ints, and one is a number of the graph. The
/// compilers of Python backends have no such function.
bool takes_ints(Interpreter& in, CallArgs& args, size_t least, size_t most) {
  if (in.options.for_python_backend || !takes_numbers(in, args, least, most)) return false;
  return std::none_of(args.positional.begin(), args.positional.end(),
                      [&](Value* value) { return in.type_of(value) == &PyFloat_Type; });
}

template <Name kName>
Value* of_int(Interpreter& in, CallArgs& args) {
  return takes_ints(in, args, 1, 1) ? number_result(in, kName.text, args.positional[0]) : nullptr;
}

Value* model_gcd(Interpreter& in, CallArgs& args) {
  if (!takes_ints(in, args, 1, args.positional.size())) return nullptr;
  Value* result = in.integer(0);
  for (Value* item : args.positional) result = number_result(in, "gcd", result, item);
  return result;
}

/// The numbers as floats, which `math` makes of its arguments first.
Value* as_float(Interpreter& in, Value* value) { return number_result(in, "float", value); }

Value* model_log(Interpreter& in, CallArgs& args) {
  if (!takes_numbers(in, args, 1, 2)) return nullptr;
  Value* made = number_result(in, "log", args.positional[0]);
  if (args.positional.size() == 1) return made;
  return number_result(in, "truediv", made, number_result(in, "log", args.positional[1]));
}

Value* model_pow(Interpreter& in, CallArgs& args) {
  if (!takes_numbers(in, args, 2, 2)) return nullptr;
  return number_result(in, "pow", as_float(in, args.positional[0]), as_float(in, args.positional[1]));
}

Value* model_fabs(Interpreter& in, CallArgs& args) {
  return takes_numbers(in, args, 1, 1) ? number_result(in, "abs", as_float(in, args.positional[0])) : nullptr;
}

Value* model_trunc(Interpreter& in, CallArgs& args) {
  return takes_numbers(in, args, 1, 1) ? number_result(in, "int", args.positional[0]) : nullptr;
}

/// `math.prod` of a list or tuple of numbers.
Value* model_prod(Interpreter& in, CallArgs& args) {
  auto* sequence = args.count() == 1 ? as_sequence(args.positional[0]) : nullptr;
  std::vector<Value*> items;
  for (size_t i = 0; sequence && i < sequence->items.size(); ++i) items.push_back(in.item(sequence, i));
  CallArgs numbers;
  numbers.positional = items;
  if (items.empty() || !takes_numbers(in, numbers, 1, items.size())) return nullptr;
  Value* product = in.integer(1);
  for (Value* item : numbers.positional) product = in.binary(pycompat::kMultiply, product, item);
  return product;
}

Value* scaled(Interpreter& in, CallArgs& args, double factor) {
  if (!takes_numbers(in, args, 1, 1)) return nullptr;
  return number_result(in, "mul", as_float(in, args.positional[0]),
                       in.constant(Ref::steal(PyFloat_FromDouble(factor))));
}
constexpr double kHalfTurn = 180.0;
Value* model_degrees(Interpreter& in, CallArgs& args) { return scaled(in, args, kHalfTurn / std::numbers::pi); }
Value* model_radians(Interpreter& in, CallArgs& args) { return scaled(in, args, std::numbers::pi / kHalfTurn); }

/// `math.floor` and `math.ceil`; of an int they give the int itself.
template <Name kName>
Value* floor_or_ceil(Interpreter& in, CallArgs& args) {
  if (!takes_numbers(in, args, 1, 1)) return nullptr;
  const bool is_float = in.type_of(args.positional[0]) == &PyFloat_Type;
  return number_result(in, is_float ? kName.text : "int", args.positional[0]);
}

// NOLINTBEGIN(cppcoreguidelines-macro-usage): a row has its name three times.
#define STATOR_OF_ONE(name) \
  { "math." name, of_one<name>, 0, ModelRow::kAny, "*" }
#define STATOR_OF_TWO(name) \
  { "math." name, of_two<name>, 0, ModelRow::kAny, "*" }
// NOLINTEND(cppcoreguidelines-macro-usage)
constexpr ModelRow kRows[] = {
    STATOR_OF_ONE("acos"),
    STATOR_OF_ONE("acosh"),
    STATOR_OF_ONE("asin"),
    STATOR_OF_ONE("asinh"),
    STATOR_OF_ONE("atan"),
    STATOR_OF_ONE("atanh"),
    STATOR_OF_ONE("cbrt"),
    STATOR_OF_ONE("cos"),
    STATOR_OF_ONE("cosh"),
    STATOR_OF_ONE("exp"),
    STATOR_OF_ONE("exp2"),
    STATOR_OF_ONE("expm1"),
    STATOR_OF_ONE("isfinite"),
    STATOR_OF_ONE("isinf"),
    STATOR_OF_ONE("isnan"),
    STATOR_OF_ONE("log10"),
    STATOR_OF_ONE("log1p"),
    STATOR_OF_ONE("log2"),
    STATOR_OF_ONE("sin"),
    STATOR_OF_ONE("sinh"),
    STATOR_OF_ONE("sqrt"),
    STATOR_OF_ONE("tan"),
    STATOR_OF_ONE("tanh"),
    STATOR_OF_TWO("atan2"),
    STATOR_OF_TWO("copysign"),
    STATOR_OF_TWO("fmod"),
    {"math.ceil", floor_or_ceil<"ceil">, 0, ModelRow::kAny, "*"},
    {"math.degrees", model_degrees, 0, ModelRow::kAny, "*"},
    {"math.fabs", model_fabs, 0, ModelRow::kAny, "*"},
    {"math.floor", floor_or_ceil<"floor">, 0, ModelRow::kAny, "*"},
    {"builtins.int.bit_count", of_int<"bit_count">, 0, ModelRow::kAny, "*"},
    {"builtins.int.bit_length", of_int<"bit_length">, 0, ModelRow::kAny, "*"},
    {"math.gcd", model_gcd, 0, ModelRow::kAny, "*"},
    {"math.isqrt", of_int<"isqrt">, 0, ModelRow::kAny, "*"},
    {"math.log", model_log, 0, ModelRow::kAny, "*"},
    {"math.prod", model_prod, 0, ModelRow::kAny, "*"},
    {"math.pow", model_pow, 0, ModelRow::kAny, "*"},
    {"math.radians", model_radians, 0, ModelRow::kAny, "*"},
    {"math.trunc", model_trunc, 0, ModelRow::kAny, "*"},
};
#undef STATOR_OF_ONE
#undef STATOR_OF_TWO

}  // namespace

std::span<const ModelRow> math_models() { return kRows; }

}  // namespace stator::capture
