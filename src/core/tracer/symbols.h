#pragma once

#include <c10/core/SymInt.h>

#include <string>
#include <unordered_map>

#include "core/graph/graph.h"
#include "core/shapes/expression.h"

namespace stator::tracer {

/// Where the numbers that depend on data come from in one graph: each expression that is needed becomes a value, once.
/// A size is read off the first tensor that has it.
class Symbols {
 public:
  /// The tensor of a value may tell sizes that were not known before.
  void learn_sizes(graph::ValueId value, const at::Tensor& fake);
  /// `value` is a number tensor that holds it.
  void learn_number(const shapes::Expr& expr, graph::ValueId value) { numbers_[expr->text] = value; }

  /// kNoValue where it is not there yet.
  graph::ValueId find_number(const shapes::Expr& expr) const;
  struct Size {
    graph::ValueId tensor = graph::kNoValue;
    int64_t dim = 0;
  };
  Size find_size(const shapes::Expr& expr) const;

  /// Values that are gone tell nothing. `is_gone(value)`.
  template <class F>
  void forget(const F& is_gone) {
    std::erase_if(numbers_, [&](const auto& entry) { return is_gone(entry.second); });
    std::erase_if(sizes_, [&](const auto& entry) { return is_gone(entry.second.tensor); });
  }
  bool empty() const { return numbers_.empty() && sizes_.empty(); }

 private:
  std::unordered_map<std::string, graph::ValueId> numbers_;  // by text
  std::unordered_map<std::string, Size> sizes_;
};

}  // namespace stator::tracer
