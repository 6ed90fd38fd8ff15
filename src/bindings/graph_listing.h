#pragma once

#include "bindings/graph_convert.h"
#include "core/graph/graph.h"

/// What a graph holds, as lists of plain Python objects. Each function throws PythonError with an exception set.
namespace stator::bindings {

/// [(name, overload, args, kwargs, results, state, location)]
Ref list_nodes(const graph::Graph& graph, PyObject* value_type);
/// [(grad, inference, [(device type, dtype)], cast cache, region)]
Ref list_states(const graph::Graph& graph);
/// [(file, function, line, caller, module path, module class)]
Ref list_locations(const graph::Graph& graph);
/// A distinct name for each value.
Ref list_names(const graph::Graph& graph);
/// The type of each value.
Ref list_types(const graph::Graph& graph);
Ref list_values(const std::vector<graph::ValueId>& ids, PyObject* value_type);

template <class Items, class Each>
Ref list_of(const Items& items, const Each& each) {
  auto list = owned(PyList_New(static_cast<Py_ssize_t>(items.size())));
  Py_ssize_t i = 0;
  for (const auto& item : items) PyList_SET_ITEM(list.get(), i++, each(item).release());
  return list;
}

}  // namespace stator::bindings
