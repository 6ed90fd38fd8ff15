#pragma once

#include <cstdint>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// Calls `visit(value)` for each value in the argument and its lists, in order.
template <class Visit>
void for_each_value(const Argument& argument, const Visit& visit) {
  if (argument.kind == Argument::Kind::Value) visit(argument.value);
  for (const auto& item : argument.items) for_each_value(item, visit);
}

/// Calls `visit(value)` for each result that is a value.
template <class Visit>
void for_each_result(const Node& node, const Visit& visit) {
  for (const auto& result : node.results) {
    for (ValueId id : result.values) {
      if (id != kNoValue) visit(id);
    }
  }
}

inline constexpr uint32_t kNever = UINT32_MAX;

/// The nodes that read each value of a graph, at the time of construction. Linear to build, flat in memory.
class STATOR_API Uses {
 public:
  explicit Uses(const Graph& graph);

  struct Range {
    const uint32_t* first;
    const uint32_t* last;
    const uint32_t* begin() const { return first; }
    const uint32_t* end() const { return last; }
    size_t size() const { return static_cast<size_t>(last - first); }
    bool empty() const { return first == last; }
  };
  /// Node indices in program order; a node that reads the value twice is listed twice.
  Range of(ValueId value) const { return {nodes_.data() + starts_[value], nodes_.data() + starts_[value + 1]}; }

 private:
  std::vector<uint32_t> starts_;
  std::vector<uint32_t> nodes_;
};

/// For each value, the index of the last node that reads or (in place) returns it: it may be released after that.
/// `nodes.size()` for graph outputs; kNever for unused values.
STATOR_API std::vector<uint32_t> last_uses(const Graph& graph);

}  // namespace stator::graph
