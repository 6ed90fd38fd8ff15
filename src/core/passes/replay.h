#pragma once

#include <memory>
#include <vector>

#include "core/graph/graph.h"
#include "core/passes/builder.h"

namespace stator::passes {

/// Makes a new graph by calling the nodes of another one in order. As it is, the result equals the original; passes
/// override what becomes of a node.
class Replay {
 public:
  /// `from` must outlive the replay.
  explicit Replay(const graph::Graph& from) : from_(from), builder_(from), now_(from.values.size()) {}
  virtual ~Replay() = default;
  Replay(const Replay&) = delete;

  std::shared_ptr<graph::Graph> run();

 protected:
  virtual void visit_input(uint32_t position);
  virtual void visit(const graph::Node& node) { copy(node); }
  /// The tensor that represents a value of the original at this point.
  virtual at::Tensor tensor(graph::ValueId id) { return now_.at(id).toTensor(); }
  /// The outputs, after the last node.
  virtual std::vector<graph::ValueId> outputs();
  /// Called for each result that is a tensor.
  virtual void bind(graph::ValueId id, const at::Tensor& made) { now_[id] = made; }

  /// Calls the node's operator, or adds the node without running it if the dispatcher cannot run it.
  void copy(const graph::Node& node);
  /// The operands of the node as a stack for a boxed call: values, constants and lists of the types that its schema
  /// declares.
  torch::jit::Stack operands(const graph::Node& node);
  /// Binds the results of the node to those on the stack.
  void bind_results(const graph::Node& node, const torch::jit::Stack& results);

  const graph::Graph& from_;
  Builder builder_;
  std::vector<c10::IValue> now_;  // by value of the original: a fake, or a plain or symbolic number

 private:
  c10::IValue operand(const graph::Argument& argument, const c10::Type& type);
  c10::IValue value(graph::ValueId id, const c10::Type& type);
  bool copy_number(const graph::Node& node);
  void copy_opaque(const graph::Node& node);
  graph::Argument mapped(const c10::OperatorHandle& op, const graph::Argument& argument);
};

/// The same graph again, with fakes for all values. Throws for graphs with values that are Python objects.
STATOR_API std::shared_ptr<graph::Graph> retrace(const graph::Graph& graph);

/// The operators below autograd that a run without gradients calls: composite operators are split, casts of autocast
/// are nodes. All nodes have one state, without gradients.
STATOR_API std::shared_ptr<graph::Graph> lower(const graph::Graph& graph);

}  // namespace stator::passes
