#include "core/shapes/env.h"
#include "core/shapes/sum.h"
#include "core/shapes/traversal.h"

namespace stator::shapes {

/// The same operation on other operands.
Ex ShapeEnv::rebuild(Ex expr, std::span<const Ex> operands) {
  for (Ex operand : operands)
    if (operand == nullptr) return nullptr;
  if (expr->op == Op::Add && expr->type == Type::Int) {
    Sum sum(this);
    for (uint32_t i = 0; i < expr->count; ++i) sum.add(operands[i], expr->numbers[i]);
    sum.add(expr->addend);
    return settled(sum.build());
  }
  if (expr->op == Op::Mul && expr->type == Type::Int) {
    Product product(this);
    for (uint32_t i = 0; i < expr->count; ++i) product.multiply(operands[i], expr->numbers[i]);
    return settled(product.build());
  }
  if (expr->op == Op::Ite) return apply(expr->op, operands[0], operands[1], operands[2]);
  if (expr->count == 1) return apply(expr->op, operands[0]);
  Ex result = operands[0];
  for (uint32_t i = 1; i < expr->count && result != nullptr; ++i) result = apply(expr->op, result, operands[i]);
  return result;
}

Ex ShapeEnv::simplify(Ex expr) {
  post_order(
      expr, [&](Ex part) { return part->simplified_epoch == epoch_; },
      [&](Ex part) {
        Ex made = part;
        if (part->op == Op::Symbol) {
          Ex by = facts_.find_replacement(part);
          made = by != nullptr ? simplify(by) : part;
          derived(part);
          made = settled(made);
        } else if (part->count > 0) {
          std::vector<Ex> operands;
          for (Ex operand : *part) operands.push_back(operand->simplified);
          derived(part);
          made = rebuild(part, operands);
        }
        part->simplified = made != nullptr ? made : part;
        part->simplified_epoch = epoch_;
      });
  return expr->simplified;
}

Ex ShapeEnv::substitute(Ex expr, const std::unordered_map<Ex, Ex>& by) {
  std::unordered_map<Ex, Ex> made = by;
  post_order(
      expr, [&](Ex part) { return made.contains(part); },
      [&](Ex part) {
        if (part->count == 0) {
          made[part] = part;
          return;
        }
        std::vector<Ex> operands;
        for (Ex operand : *part) operands.push_back(made[operand]);
        made[part] = rebuild(part, operands);
      });
  return made[expr];
}

}  // namespace stator::shapes
