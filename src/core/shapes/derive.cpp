#include <algorithm>

#include "core/shapes/bounds.h"
#include "core/shapes/env.h"
#include "core/shapes/sum.h"
#include "core/shapes/traversal.h"

namespace stator::shapes {

bool ShapeEnv::operation_may_fail(Ex expr) {
  auto operand = [&](uint32_t i) { return expr->operands[i]; };
  switch (expr->op) {
    case Op::TrueDiv:
    case Op::FloorDiv:
    case Op::Mod:
      if (operand(1)->type == Type::Int) return operand(1)->derived.range.contains(0);
      return !operand(1)->is_constant() || compute(Op::Eq, operand(1)->constant, Value::of_int(0)).truth();
    case Op::Pow:
      return expr->type == Type::Float || operand(1)->derived.range.low < 0;
    case Op::Shl:
    case Op::Shr:
      return operand(1)->derived.range.low < 0;
    case Op::Isqrt:
      return operand(0)->derived.range.low < 0;
    case Op::ToInt:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round: {
      // The quotient of integers is finite.
      Ex real = operand(0);
      const bool is_finite =
          real->op == Op::ToFloat ||
          (real->op == Op::TrueDiv && real->operands[0]->type == Type::Int && real->operands[1]->type == Type::Int);
      return real->type == Type::Float && !is_finite;
    }
    default:
      if (expr->op == Op::RoundDigits || expr->op == Op::Fmod) return true;
      return is_float_function(expr->op) && expr->op != Op::Atan && expr->op != Op::Tanh;
  }
}

/// What was learned of the linear form of the expression.
void ShapeEnv::add_form_fact(Ex expr, Derived* made) {
  WideInt scale = 1;
  Ex form = expr;
  if (expr->op == Op::Add) {
    if (expr->count < 2 || !facts_.has_sums()) return;
    Sum sum(this);
    sum.add(expr, 1);
    scale = sum.content();
    if (sum.is_negative()) scale = -scale;
    if (scale == 0) return;
    sum.set_constant(0);
    sum.divide_terms(scale);
    form = sum.build();
    if (form == nullptr) return;
  }
  const FormFact* fact = facts_.find_form(form);
  if (fact == nullptr) return;
  FormFact here{sum_of(scaled_range(fact->range, scale), {expr->addend, expr->addend}),
                affine(fact->congruence, scale, expr->addend)};
  if (auto both = intersection({made->range, made->congruence}, here)) {
    made->range = both->range;
    made->congruence = both->congruence;
  }
}

Derived ShapeEnv::derive(Ex expr) {
  Derived made;
  made.generation = generation_;
  made.epoch = epoch_;
  for (Ex operand : *expr) {
    made.may_fail = made.may_fail || operand->derived.may_fail;
    made.may_leave_int64 = made.may_leave_int64 || operand->derived.may_leave_int64;
    made.epoch = std::min(made.epoch, operand->derived.epoch);
  }
  if (expr->count > 0) made.may_fail = made.may_fail || operation_may_fail(expr);
  if (expr->type != Type::Int) return made;
  if (expr->is_constant()) {
    const WideInt value = expr->constant.integer();
    made.range = {value, value};
    made.congruence = {0, static_cast<int64_t>(value)};
    return made;
  }
  if (expr->op == Op::Symbol) {
    made.range = uses_policy_ ? expr->symbol->range : expr->symbol->natural;
    if (is_oblivious_ && expr->symbol->is_size) made.range.low = std::max<WideInt>(made.range.low, 2);
  } else {
    made.range = range_of_operation(expr);
    made.congruence = congruence_of_operation(expr);
  }
  const Range exact = narrowed(made.range, made.congruence);
  if (exact.low <= exact.high) made.range = exact;
  add_form_fact(expr, &made);
  if (made.range.low == made.range.high && fits_int64(made.range.low))
    made.congruence = {0, static_cast<int64_t>(made.range.low)};
  made.may_leave_int64 = made.may_leave_int64 || !made.range.fits_int64();
  return made;
}

const Derived& ShapeEnv::derived(Ex expr) {
  if (!is_current(expr)) {
    post_order(
        expr, [&](Ex part) { return is_current(part); }, [&](Ex part) { part->derived = derive(part); });
  }
  return expr->derived;
}

}  // namespace stator::shapes
