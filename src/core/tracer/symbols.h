#pragma once

#include <c10/core/SymInt.h>

#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/shapes/expr.h"

namespace stator::tracer {

/// The values of data-dependent numbers in one graph: each expression that is needed becomes one value.
/// A size is read off the first tensor that has it.
class Symbols {
 public:
  /// Notes the symbolic sizes of a value's tensor.
  void learn_sizes(graph::ValueId value, const at::Tensor& fake);
  /// Notes the strides of a graph input that are symbols of their own.
  void learn_strides(graph::ValueId input, const at::Tensor& fake);
  /// Notes that `value` is a number tensor that holds `expr`.
  void learn_number(shapes::Ex expr, graph::ValueId value) { numbers_[expr] = value; }

  /// The value of an expression; kNoValue if there is none yet.
  graph::ValueId find_number(shapes::Ex expr) const;
  struct Size {
    graph::ValueId tensor = graph::kNoValue;
    int64_t dim = 0;
    bool is_stride = false;
  };
  Size find_size(shapes::Ex expr) const;

  /// The sizes that are read off this tensor.
  std::vector<shapes::Ex> sizes_of(graph::ValueId tensor) const;
  void forget_sizes(graph::ValueId tensor) {
    std::erase_if(sizes_, [&](const auto& entry) { return entry.second.tensor == tensor; });
  }
  /// Removes values for which `is_gone(value)` holds.
  template <class F>
  void forget(const F& is_gone) {
    std::erase_if(numbers_, [&](const auto& entry) { return is_gone(entry.second); });
    std::erase_if(sizes_, [&](const auto& entry) { return is_gone(entry.second.tensor); });
  }
  bool empty() const { return numbers_.empty() && sizes_.empty(); }

 private:
  // The tracer keeps the environment of the expressions.
  std::unordered_map<shapes::Ex, graph::ValueId> numbers_;
  std::unordered_map<shapes::Ex, Size> sizes_;
};

}  // namespace stator::tracer
