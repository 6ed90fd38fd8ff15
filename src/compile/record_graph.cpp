// What a record says about a graph. Apart from record_view.cpp, which needs none of torch's headers.
#include "capture/tensors/tensor_object.h"
#include "compile/record_view.h"
#include "core/graph/graph.h"
#include "core/graph/names.h"

namespace stator {
using namespace capture;

namespace {

std::string sizes_text(const graph::TensorMeta& meta) {
  std::string text = "(";
  for (const graph::Dim& size : meta.sizes) text += (text.size() > 1 ? ", " : "") + size.text();
  return text + (meta.sizes.size() == 1 ? ",)" : ")");
}

}  // namespace

void note_graph(const std::shared_ptr<graph::Graph>& graph, observe::CompilationRecord& record) {
  record.graph = graph;
  record.input_count = static_cast<int64_t>(graph->inputs.size());
  record.node_count = static_cast<int64_t>(graph->nodes.size() + graph->inputs.size() + 1);
  for (const graph::Node& node : graph->nodes)
    if (!observe::is_of_torch(node.op.schema().name())) record.custom_ops.insert(node.op.schema().name());
}

std::vector<std::pair<std::string, std::string>> shapes_of(const graph::Graph& graph) {
  std::vector<std::pair<std::string, std::string>> shapes;
  std::vector<std::string> names = graph::value_names(graph);
  for (size_t value = 0; value < graph.values.size(); ++value)
    if (const graph::DefinitionId id = graph.values[value].definition; id != graph::kNoDefinition)
      shapes.emplace_back(std::move(names[value]), sizes_text(graph.definitions.meta(id)));
  return shapes;
}

std::pair<int64_t, int64_t> tensor_size(PyObject* object) {
  const at::Tensor& tensor = tensor_of(object);
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return {0, 0};
  const int64_t elements = tensor.numel();
  return {elements, elements * static_cast<int64_t>(tensor.itemsize())};
}

}  // namespace stator
