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

/// Notes the sizes of a graph: its nodes, inputs, shapes and operators of the user's libraries.
void note_graph(const graph::Graph& graph, observe::CompilationRecord& record);
/// The elements of a tensor object, and their bytes.
std::pair<int64_t, int64_t> tensor_size(PyObject* tensor);

}  // namespace stator
