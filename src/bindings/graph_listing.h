#pragma once

#include "bindings/graph_convert.h"
#include "core/graph/graph.h"

/// What a graph holds, as lists of plain Python objects. A value is an instance of `value_type`, a subclass of int, and
/// holds the value's id. Each function throws PythonError with an exception set.
namespace stator::bindings {

/// [(name, overload, args, kwargs, results, state, location)]
Ref list_nodes(const graph::Graph& graph, PyObject* value_type);
/// [(grad mode, inference mode, [(device type, dtype)] of autocast, autocast cache, autocast region)]
Ref list_states(const graph::Graph& graph);
/// [(name, type, value at capture, least, greatest)] of the symbols in metadata and numbers; None where not known.
Ref list_symbols(const graph::Graph& graph);
/// What the graph's operators check of sizes that depend on data, as text over the symbols.
Ref list_size_checks(const graph::Graph& graph);
/// (name, type, hint, least, greatest); None where there is none.
Ref symbol_object(shapes::Ex symbol);
/// [(file, function, line, caller, module path, module class)]
Ref list_locations(const graph::Graph& graph);
/// A distinct name for each value.
Ref list_names(const graph::Graph& graph);
/// The type of each value.
Ref list_types(const graph::Graph& graph);
/// [(first node, number of nodes, sub-graph, operands, [(result, the node that defines it)])] of the calls of marked
/// regions that share their sub-graph with another one; equal sub-graphs are one object. See passes/regions.h.
Ref list_regions(const graph::Graph& graph, PyObject* value_type);
Ref list_values(const std::vector<graph::ValueId>& ids, PyObject* value_type);

}  // namespace stator::bindings
