#pragma once

#include <vector>

#include "core/shapes/expr.h"

namespace stator::shapes {

/// Calls `visit` for the expression and its parts, operands first, except for those for which `is_done` holds; `visit`
/// must make it hold. Chains of any length need no recursion.
template <class IsDone, class Visit>
void post_order(Ex root, const IsDone& is_done, const Visit& visit) {
  std::vector<Ex> open = {root};
  while (!open.empty()) {
    Ex expr = open.back();
    const size_t before = open.size();
    if (!is_done(expr)) {
      for (Ex operand : *expr)
        if (!is_done(operand)) open.push_back(operand);
      if (open.size() != before) continue;
      visit(expr);
    }
    open.pop_back();
  }
}

}  // namespace stator::shapes
