#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

/// Calls of functions that the program marks as regions (`torch.compiler.nested_compile_region`), as sub-graphs. The
/// nodes of a call stand in the graph like any others; `Node::region` says which call they belong to.
namespace stator::passes {

/// A call of a region whose sub-graph another call has as well.
struct RegionCall {
  struct Made {
    graph::ValueId value;
    uint32_t node;  // the last one of the call that defines it
  };
  uint32_t first = 0, count = 0;         // its nodes
  std::shared_ptr<graph::Graph> body;    // equal ones are one object; without fakes
  std::vector<graph::ValueId> operands;  // what the body's inputs are, in order
  std::vector<Made> results;             // what its outputs are, in order
};

/// The calls that share their sub-graph with another call, in program order. Left out are calls that a sub-graph
/// cannot stand for:
/// - whose nodes are not consecutive, since passes moved some of them;
/// - with an effect besides their results: writes to what existed before, random numbers, assertions, operators that
/// may
///   raise depending on data, Python code, operators whose effects are not known;
/// - that return memory of an operand, or return one memory twice;
/// - with numbers that are values, symbolic sizes, complex tensors, constant tensors or sub-graphs, or under autocast,
/// inference mode or changing modes;
/// - of whose results only some follow the gradients of operands.
STATOR_API std::vector<RegionCall> shared_regions(const graph::Graph& graph);

}  // namespace stator::passes
