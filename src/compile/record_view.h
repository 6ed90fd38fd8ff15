#pragma once

#include <utility>

#include "capture/pycompat/ref.h"
#include "core/observe/record.h"

namespace stator::graph {
class Graph;
}

namespace stator {

/// The record as a dict, by the names of docs/observability.md. Null with a Python error set.
Ref describe_record(const observe::CompilationRecord& record);

/// Notes a graph: the numbers of its nodes and inputs, and the operators of the user's libraries.
void note_graph(const std::shared_ptr<graph::Graph>& graph, observe::CompilationRecord& record);
/// The names of the graph's values with their sizes as text, in the order of the graph.
std::vector<std::pair<std::string, std::string>> shapes_of(const graph::Graph& graph);
/// The elements of a tensor object, and their bytes.
std::pair<int64_t, int64_t> tensor_size(PyObject* tensor);

}  // namespace stator
