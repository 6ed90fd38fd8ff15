#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/shapes/env.h"
#include "core/shapes/sum.h"

namespace stator::shapes {
namespace {

/// The type of Python's result for operators whose rule is not stated elsewhere. None if it depends on the values, or
/// if there is no such operator.
std::optional<Type> type_of_result(Op op, Type a, Type b) {
  const bool has_float = a == Type::Float || b == Type::Float;
  switch (op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::FloorDiv:
    case Op::Mod:
      return has_float ? Type::Float : Type::Int;
    case Op::TrueDiv:
      return Type::Float;
    case Op::Min:
    case Op::Max:
      return a == b ? std::optional(a) : std::nullopt;
    case Op::BitAnd:
    case Op::BitOr:
    case Op::BitXor:
      if (has_float) return std::nullopt;
      return a == Type::Bool && b == Type::Bool ? Type::Bool : Type::Int;
    case Op::Shl:
    case Op::Shr:
    case Op::Gcd:
      return has_float ? std::nullopt : std::optional(Type::Int);
    case Op::And:
    case Op::Or:
      return a == Type::Bool && b == Type::Bool ? std::optional(Type::Bool) : std::nullopt;
    default:
      if (is_real_function(op)) return Type::Float;
      return is_comparison(op) ? std::optional(Type::Bool) : std::nullopt;
  }
}

}  // namespace

Ex ShapeEnv::as_int(Ex expr) {
  if (expr->type != Type::Bool) return expr;
  if (expr->is_constant()) return constant(Value::of_int(expr->constant.integer()));
  return make_node(Op::ToInt, Type::Int, {{expr}});
}

Ex ShapeEnv::settled(Ex expr) {
  if (expr == nullptr || expr->type != Type::Int || expr->is_constant()) return expr;
  const Derived& now = recent(expr);
  return now.range.low == now.range.high && !now.may_fail ? constant(Value::of_int(now.range.low)) : expr;
}

Ex ShapeEnv::add(Ex a, Ex b, WideInt times) {
  Sum sum(this);
  sum.add(a, 1);
  sum.add(b, times);
  return settled(sum.build());
}

Ex ShapeEnv::scaled(Ex expr, WideInt times) {
  Sum sum(this);
  sum.add(expr, times);
  return sum.build();
}

Ex ShapeEnv::multiply(Ex a, Ex b) {
  if (a->is_constant()) return settled(scaled(b, a->constant.integer()));
  if (b->is_constant()) return settled(scaled(a, b->constant.integer()));
  Product product(this);
  product.multiply(a);
  product.multiply(b);
  return settled(product.build());
}

Ex ShapeEnv::sorted_node(Op op, Type type, Ex a, Ex b) {
  if (compare_structure(b, a) < 0) std::swap(a, b);
  return make_node(op, type, {{a, b}});
}

/// Min or max of integers. Operands that another one makes superfluous are left out.
Ex ShapeEnv::extremum(Op op, Ex a, Ex b) {
  std::vector<Ex> operands;
  const Op wins = op == Op::Min ? Op::Le : Op::Ge;
  auto beats = [&](Ex x, Ex y) {
    if (recent(y).may_fail) return x == y;
    Ex truth = x == y ? constant(true) : compare_ints(wins, x, y);
    return truth != nullptr && known(truth) == true;
  };
  constexpr size_t kMany = 8;
  auto include = [&](Ex expr) {
    if (operands.size() < kMany) {
      if (std::any_of(operands.begin(), operands.end(), [&](Ex other) { return beats(other, expr); })) return;
      std::erase_if(operands, [&](Ex other) { return beats(expr, other); });
    } else if (std::find(operands.begin(), operands.end(), expr) != operands.end()) {
      return;
    }
    operands.push_back(expr);
  };
  for (Ex expr : {a, b}) {
    if (expr->op != op) {
      include(expr);
    } else {
      for (Ex part : *expr) include(part);
    }
  }
  if (operands.size() == 1) return operands[0];
  std::sort(operands.begin(), operands.end(), [](Ex x, Ex y) { return compare_structure(x, y) < 0; });
  return settled(make_node(op, Type::Int, operands));
}

Ex ShapeEnv::power(Ex base, Ex exponent) {
  if (base->type == Type::Float || exponent->type == Type::Float)
    return make_node(Op::Pow, Type::Float, {{base, exponent}});
  base = as_int(base);
  exponent = as_int(exponent);
  const Range range = recent(exponent).range;
  // A negative exponent of integers gives a float.
  if (range.high < 0) return make_node(Op::Pow, Type::Float, {{base, exponent}});
  if (range.low < 0) return nullptr;
  constexpr int64_t kMost = 60;
  const auto times = exponent->int_constant();
  if (times == 0 && !recent(base).may_fail) return constant(int64_t{1});
  if (times && *times > 0 && *times <= kMost) {
    Product product(this);
    product.multiply(base, *times);
    return settled(product.build());
  }
  return settled(make_node(Op::Pow, Type::Int, {{base, exponent}}));
}

Ex ShapeEnv::bits(Op op, Ex a, Ex b) {
  if (a->type == Type::Bool && b->type == Type::Bool && op <= Op::BitXor) {
    if (op == Op::BitXor) return comparison(Op::Ne, a, b);
    return logic(op == Op::BitAnd ? Op::And : Op::Or, a, b);
  }
  a = as_int(a);
  b = as_int(b);
  if (op == Op::Shl || op == Op::Shr) {
    constexpr int64_t kMost = 62;
    if (auto by = b->int_constant(); by && *by >= 0 && *by <= kMost) {
      Ex factor = constant(int64_t{1} << *by);
      return op == Op::Shl ? multiply(a, factor) : floor_quotient(a, factor);
    }
    if (b->is_constant() && b->constant.integer() < 0) return nullptr;
    return settled(make_node(op, Type::Int, {{a, b}}));
  }
  if (a == b && op != Op::BitXor) return a;
  return settled(sorted_node(op, Type::Int, a, b));
}

Ex ShapeEnv::choice(Ex condition, Ex a, Ex b) {
  if (condition->type != Type::Bool || a->type != b->type) return nullptr;
  const bool keeps_all = recent(condition).may_fail || recent(a).may_fail || recent(b).may_fail;
  if (!keeps_all) {
    if (a == b) return a;
    if (auto truth = known(condition)) return *truth ? a : b;
  }
  if (a->type == Type::Bool && !keeps_all)
    return logic(Op::Or, logic(Op::And, condition, a), logic(Op::And, negation(condition), b));
  return settled(make_node(Op::Ite, a->type, {{condition, a, b}}));
}

Ex ShapeEnv::unary(Op op, Ex a) {
  const bool is_float = a->type == Type::Float;
  switch (op) {
    case Op::Not:
      return negation(unary(Op::ToBool, a));
    case Op::ToBool:
      if (a->type == Type::Bool) return a;
      return is_float ? comparison(Op::Ne, a, constant(0.0)) : comparison(Op::Ne, a, constant(int64_t{0}));
    case Op::Neg:
      if (!is_float) return scaled(as_int(a), -1);
      break;
    case Op::Abs:
      if (is_float) break;
      a = as_int(a);
      if (recent(a).range.low >= 0) return a;
      if (recent(a).range.high <= 0) return scaled(a, -1);
      return settled(make_node(op, Type::Int, {{a}}));
    case Op::ToFloat:
      return is_float ? a : make_node(op, Type::Float, {{as_int(a)}});
    case Op::Trunc:
      op = Op::ToInt;
      [[fallthrough]];
    case Op::ToInt:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
      return is_float ? settled(make_node(op, Type::Int, {{a}})) : as_int(a);
    case Op::Isqrt:
    case Op::BitLength:
    case Op::BitCount:
      return is_float ? nullptr : settled(make_node(op, Type::Int, {{as_int(a)}}));
    case Op::IsFinite:
    case Op::IsInf:
    case Op::IsNan:
      return is_float ? make_node(op, Type::Bool, {{a}}) : constant(op == Op::IsFinite);
    default:
      break;
  }
  return make_node(op, Type::Float, {{a->type == Type::Bool ? as_int(a) : a}});
}

Ex ShapeEnv::int_result(Op op, Ex a, Ex b) {
  switch (op) {
    case Op::Add:
      return add(a, b, 1);
    case Op::Sub:
      return add(a, b, -1);
    case Op::Mul:
      return multiply(a, b);
    case Op::FloorDiv:
      return floor_quotient(a, b);
    case Op::Mod:
      return remainder(a, b);
    case Op::Gcd:
      if (a == b || b->int_constant() == 0) return unary(Op::Abs, a);
      return a->int_constant() == 0 ? unary(Op::Abs, b) : settled(sorted_node(op, Type::Int, a, b));
    default:
      return extremum(op, a, b);
  }
}

Ex ShapeEnv::apply(Op op, Ex a, Ex b, Ex c) {
  STATOR_CHECK(a != nullptr && (b != nullptr || is_unary(op)) && (c != nullptr || op != Op::Ite), "no operand");
  STATOR_CHECK(a->env == this && (b == nullptr || b->env == this), "an operand of another environment");
  if (op == Op::Ite) return choice(a, b, c);
  if (is_unary(op)) {
    if (!a->is_constant()) return unary(op, a);
    return constant(compute(op, a->constant, {}));
  }
  if (op != Op::Pow && !type_of_result(op, a->type, b->type)) return nullptr;
  if (a->is_constant() && b->is_constant()) return constant(compute(op, a->constant, b->constant));
  if (op == Op::Pow) return power(a, b);
  if (is_comparison(op)) return comparison(op, a, b);
  if (op == Op::And || op == Op::Or) return logic(op, a, b);
  if (op >= Op::BitAnd && op <= Op::Shr) return bits(op, a, b);
  const Type type = *type_of_result(op, a->type, b->type);
  if (type == Type::Bool) return logic(op == Op::Min ? Op::And : Op::Or, a, b);
  if (type == Type::Int) return int_result(op, as_int(a), as_int(b));
  const bool divides = op == Op::TrueDiv || op == Op::FloorDiv || op == Op::Mod;
  if (divides && b->is_constant() && compute(Op::Eq, b->constant, Value::of_int(0)).truth()) return nullptr;
  return make_node(op, type, {{a->type == Type::Bool ? as_int(a) : a, b->type == Type::Bool ? as_int(b) : b}});
}

}  // namespace stator::shapes
