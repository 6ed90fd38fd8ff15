#include <algorithm>

#include "core/shapes/env.h"
#include "core/shapes/sum.h"

// And, or, not.
namespace stator::shapes {

Ex ShapeEnv::negation(Ex truth) {
  if (truth == nullptr) return nullptr;
  if (truth->is_constant()) return constant(!truth->constant.truth());
  if (truth->op == Op::Not) return truth->operands[0];
  if (is_comparison(truth->op) && truth->operands[0]->type == Type::Int && truth->operands[1]->is_constant()) {
    Ex form = truth->operands[0];
    const WideInt bound = truth->operands[1]->constant.integer();
    if (truth->operands[1]->type == Type::Int) {
      if (truth->op == Op::Eq || truth->op == Op::Ne)
        return make_node(negated(truth->op), Type::Bool, {{form, truth->operands[1]}});
      Sum difference(this);
      difference.add(form, 1);
      difference.add(truth->op == Op::Le ? -bound - 1 : 1 - bound);
      Ex result = compare_to_zero(truth->op == Op::Le ? Op::Ge : Op::Le, std::move(difference));
      if (result != nullptr) return result;
    }
  }
  if (truth->op == Op::And || truth->op == Op::Or) {
    Ex result = nullptr;
    const Op opposite = truth->op == Op::And ? Op::Or : Op::And;
    for (Ex operand : *truth) {
      Ex part = negation(operand);
      result = result == nullptr ? part : logic(opposite, result, part);
    }
    return result;
  }
  return make_node(Op::Not, Type::Bool, {{truth}});
}

Ex ShapeEnv::logic(Op op, Ex a, Ex b) {
  if (a == nullptr || b == nullptr) return nullptr;
  const bool ends = op == Op::Or;  // one operand of this value decides the result
  std::vector<Ex> operands;
  for (Ex expr : {a, b}) {
    if (expr->op != op) {
      operands.push_back(expr);
    } else {
      operands.insert(operands.end(), expr->begin(), expr->end());
    }
  }
  const bool may_fail = std::any_of(operands.begin(), operands.end(), [&](Ex expr) { return recent(expr).may_fail; });
  auto is_truth = [](Ex expr, bool value) { return expr->is_constant() && expr->constant.truth() == value; };
  if (std::any_of(operands.begin(), operands.end(), [&](Ex expr) { return is_truth(expr, ends); })) {
    if (!may_fail) return constant(ends);
    std::erase_if(operands, [&](Ex expr) { return !expr->is_constant() && !recent(expr).may_fail; });
  }
  std::sort(operands.begin(), operands.end(), [](Ex x, Ex y) { return compare_structure(x, y) < 0; });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  std::erase_if(operands, [&](Ex expr) { return is_truth(expr, !ends); });
  if (operands.empty()) return constant(!ends);
  if (operands.size() == 1) return operands[0];
  return make_node(op, Type::Bool, operands);
}

}  // namespace stator::shapes
