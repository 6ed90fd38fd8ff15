#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::backend {

class UndoLog;

/// Moves computations that may fail (a division by zero, an assumption about data) before the first unrecoverable
/// write, as far as data dependencies allow, and adds checks that numbers fit the dtype of operators that would reject
/// them. Needs the fakes. `log` is that of the graph. Returns the old index of each node (for a new node, that of the
/// node it serves); empty if the graph did not change.
STATOR_API std::vector<uint32_t> check_early(graph::Graph& graph, const UndoLog& log);

/// A graph whose first `nodes` nodes are all its computations that may fail, with what they depend on.
struct EarlyPart {
  graph::Graph graph;
  std::vector<uint32_t> order;  // as `check_early` returns it
  uint32_t nodes = 0;
};
/// The part of a graph that tells whether its numbers and assumptions hold, and fit where what the graph wrote cannot
/// be undone, if it is small enough to run once more before the graph does. None also for a graph without such
/// computations, and for one with symbolic sizes of inputs. Needs the fakes.
STATOR_API std::optional<EarlyPart> early_part(const graph::Graph& graph);

/// The dtypes that a number must fit for an operator that rejects exactly the numbers which do not fit; empty for other
/// operators.
STATOR_API std::vector<at::ScalarType> fitting_dtypes(const graph::Graph& graph, const graph::Node& node);

/// The number arguments of a node that it takes as plain numbers.
STATOR_API std::vector<graph::ValueId> plain_numbers(const graph::Node& node);

}  // namespace stator::backend
