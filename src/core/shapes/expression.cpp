#include "core/shapes/expression.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "core/base/check.h"
#include "core/shapes/expression_parts.h"
#include "core/shapes/linear_sum.h"
#include "core/shapes/ranges.h"

namespace stator::shapes {
namespace {

constexpr const char* kNames[] = {
#define STATOR_NUMBER_OPERATOR(name, text) text,
#include "core/shapes/number_operators.def"
#undef STATOR_NUMBER_OPERATOR
};

std::string number_text(const Number& number) {
  if (const auto* integer = std::get_if<int64_t>(&number)) return std::to_string(*integer);
  if (const auto* truth = std::get_if<bool>(&number)) return *truth ? "True" : "False";
  char text[40];
  // Hexadecimal, so that equal texts mean equal bits.
  std::snprintf(text, sizeof(text), "%a", std::get<double>(number));
  return text;
}

/// Whether the operation itself may fail, given operands that were computed without failure.
bool operation_may_fail(const Expression& expr) {
  const auto fits = [](const Range& range) { return range.low > INT64_MIN && range.high < INT64_MAX; };
  const auto is_float = [](const Expr& e) { return e->type == Type::Float; };
  // An integer operand of a float operation becomes a float, which holds 53 bits.
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto exact = [&](const Expr& e) {
    return e->type != Type::Int || (e->range.low >= -kExact && e->range.high <= kExact);
  };
  const bool floats = expr.op == Op::TrueDiv || std::any_of(expr.args.begin(), expr.args.end(), is_float);
  if (floats && !std::all_of(expr.args.begin(), expr.args.end(), exact)) return true;
  if (is_math(expr.op)) return true;
  switch (expr.op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg:
    case Op::Abs:
      return expr.type == Type::Int && !fits(expr.range);
    case Op::TrueDiv:
    case Op::FloorDiv:
    case Op::Mod: {
      const Expr& by = expr.args[1];
      if (by->type == Type::Float) return !by->is_constant() || std::get<double>(by->constant) == 0;
      const bool smallest = expr.op != Op::TrueDiv && by->range.low <= -1 && expr.args[0]->range.low == INT64_MIN;
      return smallest || (by->range.low <= 0 && by->range.high >= 0);
    }
    case Op::Pow:
      return true;
    case Op::ToInt:
      return is_float(expr.args[0]);
    case Op::ToFloat:
      return !exact(expr.args[0]);
    default:
      return false;
  }
}

bool is_comparison(Op op) { return op >= Op::Lt && op <= Op::Ge; }

Expr as_int(const Expr& expr) { return expr->type == Type::Bool ? apply(Op::ToInt, expr) : expr; }

Expr int_result(Op op, const Expr& a, const Expr& b) {
  if (op == Op::Add || op == Op::Sub) {
    LinearSum sum;
    sum.add(a, 1);
    sum.add(b, op == Op::Add ? 1 : -1);
    if (sum.fits()) return sum.build();
  }
  if (op == Op::Mul) {
    const Expr &number = int_constant(a) ? a : b, &other = int_constant(a) ? b : a;
    if (auto times = int_constant(number)) {
      LinearSum sum;
      sum.add(other, *times);
      if (sum.fits()) return sum.build();
    }
    if (b->text < a->text) return make_expression(op, Type::Int, {b, a}, range_of(op, a, b), op_name(op));
  }
  if (op == Op::FloorDiv && int_constant(b) == 1) return a;
  if ((op == Op::Min || op == Op::Max) && a->text == b->text) return a;
  if (op == Op::Min || op == Op::Max) {
    const Op first_wins = op == Op::Min ? Op::Le : Op::Ge;
    if (auto first = decide(apply(first_wins, a, b))) return *first ? a : b;
  }
  return make_expression(op, Type::Int, {a, b}, range_of(op, a, b), op_name(op));
}

/// The type of Python's result. None if it depends on the values, or if there is no such operator.
std::optional<Type> result_type(Op op, Type a, Type b) {
  const bool has_float = a == Type::Float || b == Type::Float;
  if (is_math(op)) return math_type(op);
  switch (op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
      return has_float ? Type::Float : Type::Int;
    case Op::FloorDiv:
    case Op::Mod:
      return has_float ? Type::Float : Type::Int;
    case Op::TrueDiv:
      return Type::Float;
    case Op::Min:
    case Op::Max:
      return a == b ? std::optional(a) : std::nullopt;
    case Op::And:
    case Op::Or:
      return a == Type::Bool && b == Type::Bool ? std::optional(Type::Bool) : std::nullopt;
    case Op::Not:
    case Op::ToBool:
      return Type::Bool;
    case Op::Neg:
    case Op::Abs:
      return a == Type::Float ? Type::Float : Type::Int;
    case Op::ToInt:
      return Type::Int;
    case Op::ToFloat:
      return Type::Float;
    default:
      return is_comparison(op) ? std::optional(Type::Bool) : std::nullopt;
  }
}

/// A negative exponent of integers gives a float.
std::optional<Type> power_type(const Expr& base, const Expr& exponent) {
  if (base->type == Type::Float || exponent->type == Type::Float) return Type::Float;
  const Range& range = as_int(exponent)->range;
  if (range.low >= 0) return Type::Int;
  return range.high < 0 ? std::optional(Type::Float) : std::nullopt;
}

}  // namespace

Expr make_expression(Op op, Type type, std::vector<Expr> args, Range range, const std::string& name) {
  // Bounds the work on expressions that grow in a loop.
  constexpr size_t kLongest = 300;
  auto made = std::make_shared<Expression>();
  made->op = op;
  made->type = type;
  made->range = range;
  made->text = name + "(";
  for (size_t i = 0; i < args.size(); ++i) made->text += (i != 0 ? ", " : "") + args[i]->text;
  made->text += ")";
  made->args = std::move(args);
  made->fails =
      op != Op::Opaque && (std::any_of(made->args.begin(), made->args.end(), may_fail) || operation_may_fail(*made));
  if (made->text.size() > kLongest) {
    static thread_local uint64_t count = 0;
    made->text = "e" + std::to_string(count++);
    made->sealed = true;
  }
  return made;
}

std::optional<int64_t> int_constant(const Expr& expr) {
  if (!expr->is_constant() || expr->type != Type::Int) return std::nullopt;
  return std::get<int64_t>(expr->constant);
}

const char* op_name(Op op) { return kNames[static_cast<size_t>(op)]; }

std::optional<Op> find_op(const std::string& name) {
  for (size_t i = static_cast<size_t>(Op::Add); i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Op>(i);
  return std::nullopt;
}

Expr constant(Number value) {
  auto made = std::make_shared<Expression>();
  made->constant = value;
  made->type = static_cast<Type>(value.index());
  made->text = number_text(value);
  if (const auto* number = std::get_if<int64_t>(&value)) made->range = {*number, *number};
  return made;
}

Expr symbol(Type type, Range range) {
  static thread_local uint64_t count = 0;
  auto made = std::make_shared<Expression>();
  made->op = Op::Symbol;
  made->type = type;
  made->range = range;
  made->text = "u" + std::to_string(count++);
  return made;
}

Expr opaque(const std::string& name, std::vector<Expr> args, Range range) {
  return make_expression(Op::Opaque, Type::Int, std::move(args), range, name);
}

Expr apply(Op op, const Expr& a, const Expr& b) {
  STATOR_CHECK(a && (b || is_unary(op)), "an operand is missing");
  const auto type = op == Op::Pow ? power_type(a, b) : result_type(op, a->type, b ? b->type : a->type);
  if (!type) return nullptr;
  if (a->is_constant() && (!b || b->is_constant())) {
    try {
      return constant(compute(op, a->constant, b ? b->constant : Number()));
    } catch (const std::domain_error&) {
      return nullptr;
    }
  }
  if ((op == Op::ToInt && a->type == Type::Int) || (op == Op::ToFloat && a->type == Type::Float) ||
      (op == Op::ToBool && a->type == Type::Bool))
    return a;
  if (op == Op::Neg && a->type != Type::Float) return int_result(Op::Mul, constant(int64_t{-1}), as_int(a));
  if (op == Op::Abs && a->type == Type::Int && a->range.low >= 0) return a;
  const bool on_ints = a->type != Type::Float && (!b || b->type != Type::Float);
  if (*type == Type::Int && b) return int_result(op, as_int(a), as_int(b));
  if (is_comparison(op) && on_ints) {
    LinearSum difference;
    difference.add(as_int(a), 1);
    difference.add(as_int(b), -1);
    if (difference.fits())
      if (auto known = compare_by_difference(op, difference.range())) return constant(*known);
  }
  std::vector<Expr> args = {a};
  if (b) args.push_back(b);
  return make_expression(op, *type, std::move(args), *type == Type::Int ? range_of(op, a, b) : Range{}, op_name(op));
}

Expr divided(const Expr& a, const Expr& b) {
  LinearSum sum;
  sum.add(a, 1);
  const auto divisor = int_constant(b);
  if (!divisor)
    if (auto factor = sum.multiple_of(b)) return constant(*factor);
  if (divisor && *divisor > 0 && sum.divide(*divisor)) return sum.build();
  return apply(Op::FloorDiv, a, b);
}

std::optional<bool> decide(const Expr& truth) {
  if (!truth || truth->sealed) return std::nullopt;
  if (truth->is_constant() && truth->type == Type::Bool) return std::get<bool>(truth->constant);
  if (truth->op == Op::Not && truth->args[0]->type == Type::Bool) {
    auto inner = decide(truth->args[0]);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  if (truth->op == Op::ToBool && truth->args[0]->type == Type::Int)
    return decide(apply(Op::Ne, truth->args[0], constant(int64_t{0})));
  if (truth->op == Op::And || truth->op == Op::Or) {
    const bool ends = truth->op == Op::Or;  // one operand of this value decides the result
    auto a = decide(truth->args[0]), b = decide(truth->args[1]);
    if ((a && *a == ends) || (b && *b == ends)) return ends;
    if (a && b) return !ends;
  }
  return std::nullopt;
}

}  // namespace stator::shapes
