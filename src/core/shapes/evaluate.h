#pragma once

#include <string>

#include "core/shapes/expr.h"

namespace stator::shapes {

/// The value of an expression that has operands, given by `value_of(operand)`; none if one of them has none.
template <class F>
Value evaluate_operation(Ex expr, const F& value_of) {
  if (expr->op == Op::Add && expr->type == Type::Int) {
    Value sum = Value::of_int(expr->addend);
    for (uint32_t i = 0; i < expr->count; ++i)
      sum = compute(Op::Add, sum, compute(Op::Mul, Value::of_int(expr->numbers[i]), value_of(expr->operands[i])));
    return sum;
  }
  if (expr->op == Op::Mul && expr->type == Type::Int) {
    Value product = Value::of_int(1);
    for (uint32_t i = 0; i < expr->count; ++i)
      product =
          compute(Op::Mul, product, compute(Op::Pow, value_of(expr->operands[i]), Value::of_int(expr->numbers[i])));
    return product;
  }
  if (expr->op == Op::Ite) {
    const Value condition = value_of(expr->operands[0]), a = value_of(expr->operands[1]),
                b = value_of(expr->operands[2]);
    return condition && a && b ? (condition.truth() ? a : b) : Value();
  }
  Value result = value_of(expr->operands[0]);
  if (expr->count == 1) return compute(expr->op, result, {});
  for (uint32_t i = 1; i < expr->count; ++i) result = compute(expr->op, result, value_of(expr->operands[i]));
  return result;
}

/// Decimal.
std::string wide_text(WideInt value);
/// As Python writes it.
std::string value_text(const Value& value);

}  // namespace stator::shapes
