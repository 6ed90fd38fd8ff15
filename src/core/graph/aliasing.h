#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"
#include "core/graph/uses.h"

/// What nodes do to memory, and which values share it. Code that moves, undoes or repeats nodes must ask here.
namespace stator::graph {

/// Whether the node writes to its `index`-th argument: as its schema tells, or although its schema does not tell (the
/// running statistics of batch_norm).
STATOR_API bool writes_argument(const Node& node, size_t index);
/// Whether the node may write to an argument. Cheap.
STATOR_API bool may_write(const c10::OperatorHandle& op);

/// The values that the node writes to.
template <class Visit>
void for_each_written(const Node& node, const Visit& visit) {
  if (!may_write(node.op)) return;
  for (size_t i = 0; i < node.args.size(); ++i)
    if (writes_argument(node, i)) for_each_value(node.args[i], visit);
}

/// Whether the node, or a node of its sub-graphs, draws random numbers.
STATOR_API bool draws_random(const Node& node);
/// Whether the node may change sizes, strides or the storage of a tensor that exists already.
STATOR_API bool changes_metadata(const Node& node);

/// Identifies the storage of a tensor or fake: equal for tensors that lie in one storage. Null for tensors without
/// storage.
STATOR_API const void* memory_of(const at::Tensor& tensor);

/// Answers about the values of one graph, from its fakes and the schemas. The graph must outlive it; inputs and nodes
/// must not be added meanwhile.
class STATOR_API Aliasing {
 public:
  explicit Aliasing(const Graph& graph) : graph_(graph) {}

  /// Equal for values that lie in one storage; null where that is not known.
  const void* memory_of(ValueId value) const;
  /// Positions of the inputs that lie in the same storage as the value.
  const std::vector<uint32_t>& inputs_sharing(ValueId value) const;
  /// Whether a node writes to the storage of the tensor. The tensor need not be a value of the graph.
  bool is_written(const at::Tensor& tensor) const;

  /// A result and an argument of one node that share memory, or are one tensor.
  struct Alias {
    ValueId result, argument;
    bool operator==(const Alias&) const = default;
  };
  /// The aliases among results and arguments of the node: by storage where both have fakes, else as the schema says.
  std::vector<Alias> aliases_of(const Node& node) const;

 private:
  const Graph& graph_;
  const std::vector<uint32_t> none_;
  mutable bool has_inputs_ = false;
  mutable std::unordered_map<const void*, std::vector<uint32_t>> inputs_;  // by memory, made when first asked for
  mutable std::optional<std::unordered_set<const void*>> written_;         // storages, made when first asked for
};

/// Groups the values of a graph that may share memory. Fakes show it by their storages. For a graph without fakes, the
/// operators' schemas show it, together with the table of aliases that schemas omit; the operands and results of an
/// operator outside ATen are assumed to share memory.
class STATOR_API MemoryGroups {
 public:
  explicit MemoryGroups(const Graph& graph);
  /// Equal for values that may share memory.
  uint32_t of(ValueId value) const;

 private:
  void join(ValueId a, ValueId b);
  void join_by_storage(const Graph& graph);
  void join_node(const Graph& graph, const Node& node);
  mutable std::vector<uint32_t> parents_;
};

}  // namespace stator::graph
