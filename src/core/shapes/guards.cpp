#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "core/shapes/env.h"

namespace stator::shapes {
namespace {

struct Candidate {
  Guard guard;
  size_t order;
  bool is_policy;
  int rank() const {
    Ex truth = guard.truth;
    if (is_policy) return 2;
    if (!is_comparison(truth->op) || truth->operands[0]->type != Type::Int || !truth->operands[1]->is_constant())
      return 4;
    return truth->op == Op::Eq ? 0 : truth->op == Op::Ne ? 3 : 1;
  }
};

/// Equalities first, then bounds of forms, short ones before long ones; of two bounds of one form the stronger one.
/// Then what was stated of symbols at first, which often follows.
bool comes_first(const Candidate& a, const Candidate& b) {
  const int x = a.rank(), y = b.rank();
  if (x != y || x != 1) return std::tie(x, a.order) < std::tie(y, b.order);
  Ex form = a.guard.truth->operands[0], other = b.guard.truth->operands[0];
  if (form != other) return compare_structure(form, other) < 0;
  const Op op = a.guard.truth->op, op_b = b.guard.truth->op;
  if (op != op_b) return op == Op::Ge;
  const WideInt bound = a.guard.truth->operands[1]->constant.integer();
  const WideInt bound_b = b.guard.truth->operands[1]->constant.integer();
  if (bound != bound_b) return op == Op::Ge ? bound > bound_b : bound < bound_b;
  return a.order < b.order;
}

}  // namespace

std::vector<Guard> ShapeEnv::final_guards() {
  Facts before = std::move(facts_);
  facts_ = {};
  uses_policy_ = false;
  ++generation_;
  changed();
  std::vector<Candidate> candidates;
  std::unordered_set<const SymbolInfo*> seen;
  for (const InputInfo& input : inputs_) {
    const SymbolInfo& symbol = *input.symbol->symbol;
    if (!seen.insert(&symbol).second || symbol.type != Type::Int) continue;
    for (auto [op, bound, natural] : {std::tuple(Op::Ge, symbol.range.low, symbol.natural.low),
                                      std::tuple(Op::Le, symbol.range.high, symbol.natural.high)}) {
      if (bound == natural) continue;
      candidates.push_back({{compare_form(op, input.symbol, bound), {input.tag, "the range of " + input.source}},
                            candidates.size(),
                            true});
    }
  }
  for (const Guard& guard : guards_) candidates.push_back({guard, candidates.size(), false});
  std::sort(candidates.begin(), candidates.end(), comes_first);
  std::vector<Guard> result;
  for (Candidate& candidate : candidates) {
    Ex truth = simplify(candidate.guard.truth);
    if (known(truth) == true) continue;
    add_fact(truth, true);
    result.push_back({truth, std::move(candidate.guard.where)});
  }
  facts_ = std::move(before);
  uses_policy_ = true;
  ++generation_;
  changed();
  return result;
}

}  // namespace stator::shapes
