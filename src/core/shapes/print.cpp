#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "core/shapes/env.h"
#include "core/shapes/evaluate.h"
#include "core/shapes/traversal.h"

namespace stator::shapes {
namespace {

/// How tightly an operator binds, loosest first.
enum Binding {
  kChoice,
  kOr,
  kAnd,
  kNot,
  kCompare,
  kBitOr,
  kBitXor,
  kBitAnd,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kPower,
  kAtom
};

struct Text {
  std::string text;
  Binding binding;
};

class Printer {
 public:
  explicit Printer(bool is_cpp) : is_cpp_(is_cpp) {}
  std::string print(Ex root);

 private:
  Text build(Ex expr);
  Text sum(Ex expr);
  Text product(Ex expr);
  Text comparison(Ex expr);
  Text infix(Ex expr);
  Text call(const std::string& name, Ex expr);
  Text unary(Ex expr);
  std::string side(Ex form, int sign, WideInt constant);
  std::string multiple(Ex term, WideInt times);
  /// The text of a part, in parentheses if it binds less tightly than `at_least`.
  std::string part(Ex expr, Binding at_least);

  bool is_cpp_;
  std::unordered_map<Ex, Text> texts_;
};

const char* infix_text(Op op, bool is_cpp) {
  switch (op) {
    case Op::Add:
      return " + ";
    case Op::Sub:
      return " - ";
    case Op::Mul:
      return "*";
    case Op::TrueDiv:
      return " / ";
    case Op::FloorDiv:
      return " // ";
    case Op::Mod:
      return " % ";
    case Op::Lt:
      return " < ";
    case Op::Le:
      return " <= ";
    case Op::Eq:
      return " == ";
    case Op::Ne:
      return " != ";
    case Op::And:
      return is_cpp ? " && " : " and ";
    case Op::Or:
      return is_cpp ? " || " : " or ";
    case Op::BitAnd:
      return " & ";
    case Op::BitOr:
      return " | ";
    case Op::BitXor:
      return " ^ ";
    case Op::Shl:
      return " << ";
    default:
      return " >> ";
  }
}

Binding infix_binding(Op op) {
  switch (op) {
    case Op::Or:
      return kOr;
    case Op::And:
      return kAnd;
    case Op::BitOr:
      return kBitOr;
    case Op::BitXor:
      return kBitXor;
    case Op::BitAnd:
      return kBitAnd;
    case Op::Shl:
    case Op::Shr:
      return kShift;
    case Op::Add:
    case Op::Sub:
      return kSum;
    default:
      return is_comparison(op) ? kCompare : kProduct;
  }
}

std::string Printer::part(Ex expr, Binding at_least) {
  const Text& made = texts_.at(expr);
  return made.binding < at_least ? "(" + made.text + ")" : made.text;
}

std::string Printer::multiple(Ex term, WideInt times) {
  if (times == 1) return part(term, kProduct);
  return wide_text(times) + "*" + part(term, term->op == Op::Mul ? kProduct : kUnary);
}

/// The terms of a form whose coefficients have the sign, and the constant.
std::string Printer::side(Ex form, int sign, WideInt constant) {
  std::string text;
  auto append = [&](const std::string& one) { text += text.empty() ? one : " + " + one; };
  if (form->op != Op::Add || form->type != Type::Int) {
    if (sign > 0) append(part(form, kSum));
  } else {
    for (uint32_t i = 0; i < form->count; ++i) {
      const WideInt times = form->numbers[i];
      if (sign > 0 ? times >= 0 : times < 0) append(multiple(form->operands[i], sign > 0 ? times : -times));
    }
  }
  if (constant != 0 || text.empty()) {
    if (constant < 0 && !text.empty()) return text + " - " + wide_text(-constant);
    append(wide_text(constant));
  }
  return text;
}

Text Printer::comparison(Ex expr) {
  Ex a = expr->operands[0], b = expr->operands[1];
  if (a->type == Type::Float || b->type == Type::Float || !b->is_constant())
    return {part(a, kBitOr) + infix_text(expr->op, is_cpp_) + part(b, kBitOr), kCompare};
  const WideInt bound = b->constant.integer();
  bool has_negative = false;
  for (uint32_t i = 0; a->op == Op::Add && i < a->count; ++i) has_negative = has_negative || a->numbers[i] < 0;
  const WideInt left = has_negative && bound < 0 ? -bound : 0, right = has_negative && bound < 0 ? 0 : bound;
  const char* text = expr->op == Op::Ge ? " >= " : infix_text(expr->op, is_cpp_);
  std::string first = side(a, 1, left);
  return {first + text + side(a, -1, right), kCompare};
}

Text Printer::sum(Ex expr) {
  std::string text;
  for (uint32_t i = 0; i < expr->count; ++i) {
    const WideInt times = expr->numbers[i];
    if (text.empty()) {
      text = times == -1 ? "-" + part(expr->operands[i], kUnary) : multiple(expr->operands[i], times);
    } else {
      text += times < 0 ? " - " + multiple(expr->operands[i], -times) : " + " + multiple(expr->operands[i], times);
    }
  }
  const WideInt addend = expr->addend;
  if (addend != 0) text += addend < 0 ? " - " + wide_text(-addend) : " + " + wide_text(addend);
  if (expr->count > 1 || addend != 0) return {text, kSum};
  return {text, expr->numbers[0] == -1 ? kUnary : kProduct};
}

Text Printer::product(Ex expr) {
  std::string text;
  for (uint32_t i = 0; i < expr->count; ++i) {
    if (!text.empty()) text += "*";
    const int64_t power = expr->numbers[i];
    if (power == 1) {
      text += part(expr->operands[i], kUnary);
    } else if (is_cpp_) {
      text += "stator_pow(" + part(expr->operands[i], kChoice) + ", " + std::to_string(power) + ")";
    } else {
      text += part(expr->operands[i], kAtom) + "**" + std::to_string(power);
    }
  }
  return {text, expr->count == 1 && !is_cpp_ ? kPower : kProduct};
}

Text Printer::call(const std::string& name, Ex expr) {
  std::string text = name + "(";
  for (uint32_t i = 0; i < expr->count; ++i) text += (i != 0 ? ", " : "") + part(expr->operands[i], kChoice);
  return {text + ")", kAtom};
}

Text Printer::infix(Ex expr) {
  const Binding binding = infix_binding(expr->op);
  std::string text = part(expr->operands[0], binding);
  for (uint32_t i = 1; i < expr->count; ++i)
    text += infix_text(expr->op, is_cpp_) + part(expr->operands[i], static_cast<Binding>(binding + 1));
  return {text, binding};
}

Text Printer::unary(Ex expr) {
  const std::string name = op_name(expr->op);
  switch (expr->op) {
    case Op::Not:
      return {(is_cpp_ ? "!" : "not ") + part(expr->operands[0], is_cpp_ ? kAtom : kNot), kNot};
    case Op::Neg:
      return {"-" + part(expr->operands[0], kUnary), kUnary};
    case Op::BitLength:
    case Op::BitCount:
      return call((is_cpp_ ? "stator_" : "int.") + name, expr);
    case Op::Abs:
    case Op::Round:
    case Op::ToBool:
    case Op::ToInt:
    case Op::ToFloat:
      if (is_cpp_) return call("stator_" + name, expr);
      return call(name, expr);
    default:
      return call((is_cpp_ ? "stator_" : "math.") + name, expr);
  }
}

Text Printer::build(Ex expr) {
  const bool is_int = expr->type == Type::Int;
  switch (expr->op) {
    case Op::Constant: {
      std::string text = value_text(expr->constant);
      if (is_cpp_ && expr->type == Type::Bool) text = expr->constant.truth() ? "true" : "false";
      return {text, text[0] == '-' ? kUnary : kAtom};
    }
    case Op::Symbol:
      return {expr->symbol->name, kAtom};
    case Op::Add:
      return is_int ? sum(expr) : infix(expr);
    case Op::Mul:
      return is_int ? product(expr) : infix(expr);
    case Op::Min:
    case Op::Max:
      return call(std::string(is_cpp_ ? "stator_" : "") + op_name(expr->op), expr);
    case Op::Pow:
      if (is_cpp_) return call("stator_pow", expr);
      return {part(expr->operands[0], kAtom) + "**" + part(expr->operands[1], kUnary), kPower};
    case Op::Ite: {
      if (is_cpp_)
        return {
            part(expr->operands[0], kOr) + " ? " + part(expr->operands[1], kOr) + " : " + part(expr->operands[2], kOr),
            kChoice};
      std::string text = part(expr->operands[0], kOr);
      std::string first = part(expr->operands[1], kOr);
      return {first + " if " + text + " else " + part(expr->operands[2], kOr), kChoice};
    }
    default:
      break;
  }
  if (is_unary(expr->op)) return unary(expr);
  if (expr->op == Op::RoundDigits && !is_cpp_) return call("round", expr);
  if (is_real_function(expr->op) || expr->op == Op::Gcd)
    return call((is_cpp_ ? "stator_" : "math.") + std::string(op_name(expr->op)), expr);
  const bool divides = expr->op == Op::FloorDiv || expr->op == Op::Mod || expr->op == Op::TrueDiv;
  if (is_cpp_ && divides) return call(std::string("stator_") + op_name(expr->op), expr);
  return is_comparison(expr->op) ? comparison(expr) : infix(expr);
}

/// In a large expression, parts that occur more than once are named before it:
/// Python `[e0_ := ..., e1_ := ..., expression][-1]`, C++ a lambda function.
std::string Printer::print(Ex root) {
  constexpr uint32_t kLarge = 400;
  std::unordered_map<Ex, int> uses;
  if (root->tree_size > kLarge) {
    std::unordered_set<Ex> seen;
    post_order(
        root, [&](Ex expr) { return seen.contains(expr); },
        [&](Ex expr) {
          seen.insert(expr);
          for (Ex operand : *expr) ++uses[operand];
        });
  }
  std::string definitions;
  int names = 0;
  post_order(
      root, [&](Ex expr) { return texts_.contains(expr); },
      [&](Ex expr) {
        Text made = build(expr);
        if (auto found = uses.find(expr); found != uses.end() && found->second > 1 && expr->count > 0) {
          const std::string name = "e" + std::to_string(names++) + "_";
          definitions += is_cpp_ ? "const auto " + name + " = " + made.text + "; " : name + " := " + made.text + ", ";
          made = {name, kAtom};
        }
        texts_.emplace(expr, std::move(made));
      });
  const std::string& text = texts_.at(root).text;
  if (definitions.empty()) return text;
  return is_cpp_ ? "[&] { " + definitions + "return " + text + "; }()" : "[" + definitions + text + "][-1]";
}

}  // namespace

std::string wide_text(WideInt value) {
  if (value == 0) return "0";
  std::string text;
  const bool is_negative = value < 0;
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    text.insert(text.begin(), static_cast<char>('0' + (digit < 0 ? -digit : digit)));
  }
  return is_negative ? "-" + text : text;
}

std::string value_text(const Value& value) {
  if (!value) return "none";
  if (value.is_bool()) return value.truth() ? "True" : "False";
  if (!value.is_float()) return wide_text(value.integer());
  const double number = value.real();
  if (std::isnan(number)) return "float('nan')";
  if (std::isinf(number)) return number < 0 ? "-float('inf')" : "float('inf')";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  std::string result(text, end);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

std::string to_python(Ex expr) { return Printer(false).print(expr); }

std::string to_cpp(Ex expr) { return Printer(true).print(expr); }

}  // namespace stator::shapes
