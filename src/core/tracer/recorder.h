#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/pointer_map.h"
#include "core/graph/aliasing.h"
#include "core/graph/graph.h"
#include "core/shapes/env.h"
#include "core/tracer/computed_sums.h"
#include "core/tracer/numbers.h"
#include "core/tracer/symbols.h"

namespace stator::tracer {

/// The state, location, profiler range and marked region of a node.
struct Place {
  uint32_t state = 0;
  uint32_t location = 0;
  uint32_t range = 0;
  uint32_t region = 0;
};

/// The reason to refuse an operator that gets a data-dependent number where it expects a tensor.
inline constexpr char kNumberAsTensor[] = "a number that depends on data in the place of a tensor";

/// The fake of a number tensor.
at::Tensor number_fake(shapes::Type type);

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& why);

/// Records operator calls into one graph, and maps tensors to values. The two lists of a trace, above and below
/// autograd, are subclasses: they differ in how they hold tensors, and in how they treat one that no recorded operator
/// made.
class Recorder {
 public:
  /// `symbols` is the environment of symbolic numbers, which outlives the recorder.
  Recorder(std::string graph_name, shapes::ShapeEnv* symbols);
  virtual ~Recorder() = default;
  Recorder(const Recorder&) = delete;

  graph::Graph& graph() { return *graph_; }
  std::shared_ptr<graph::Graph> share_graph() { return graph_; }

  graph::ValueId add_input(std::string name, const at::Tensor& fake);
  /// An input that is the number tensor of a symbol.
  graph::ValueId add_number_input(std::string name, shapes::Ex symbol);
  /// Adds a node that returns a new copy of `data` in each run.
  void add_constant(const at::Tensor& data, const at::Tensor& fake);
  /// Sets the place of the nodes recorded from now on.
  void set_place(Place place) { place_ = place; }
  /// The value of a tensor; kNoValue if it is not known.
  graph::ValueId find(const at::Tensor& tensor) const;
  /// From now on `fake`, which no operator made, represents the value `id`.
  virtual void adopt(const at::Tensor& fake, graph::ValueId id) = 0;

  /// The operands of a call. Called before it runs, because it may change them.
  std::vector<graph::Argument> arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  /// Adds the node of a call that has run. False if the call only read metadata, which is a constant of
  /// the trace. Throws, with nothing added, for results that can't be values.
  bool record(const c10::OperatorHandle& op, std::vector<graph::Argument> args, const torch::jit::Stack& stack);

  /// The number tensor that holds a number which depends on data; nodes that compute it are added where they are
  /// missing. Refuses, naming `op`, a number that the graph cannot compute.
  virtual graph::ValueId number_value(const c10::OperatorHandle& op, shapes::Ex expr);
  /// Adds a node that returns the number tensor of `expr`.
  graph::ValueId add_number(const c10::OperatorHandle& op, std::vector<graph::Argument> args, shapes::Ex expr);

  /// Whether a recorded operator wrote to the storage of the tensor; true also if its node was rolled back.
  bool is_written(const at::Tensor& tensor) const { return written_.contains(graph::memory_of(tensor)); }

  size_t mark() const { return graph_->nodes.size(); }
  void rollback(size_t mark);

 protected:
  /// Called for an operand that is not a value of the graph yet. Makes it one and returns its id, or throws.
  virtual graph::ValueId resolve(const c10::OperatorHandle& op, const at::Tensor& tensor) = 0;
  /// The graph's data for a new value, which will be `id`.
  virtual graph::ValueInfo describe(graph::ValueId id, const at::Tensor& fake) = 0;
  /// The value that a tensor stands for now; kNoValue if it is not known, or if the program replaced its data.
  virtual graph::ValueId current(const at::Tensor& tensor) { return find(tensor); }
  /// Called if an operator returned a known tensor.
  virtual void returned(graph::ValueId id, const at::Tensor& fake) = 0;
  /// Called before the value is removed.
  virtual void forget(graph::ValueId id) = 0;

  /// Whether a tensor without a fake's key may be a value.
  virtual bool accepts(const at::Tensor& real) const { return false; }
  /// The symbolic number for which torch's bindings passed this placeholder tensor. Null: the operator is refused.
  virtual shapes::Expr number_in_place_of(const at::Tensor& placeholder) { return {}; }
  /// Called for a symbol that the graph does not have. True if it is an input now.
  virtual bool bring_in(shapes::Ex symbol) { return false; }
  /// Whether to record an operand of this kind, which graphs for execution do not have.
  virtual bool accepts(const c10::IValue& object) const { return false; }

  void learn_sizes(graph::ValueId id, const at::Tensor& fake);
  graph::Node& add_node(const c10::OperatorHandle& op, std::vector<graph::Argument> args);
  graph::ValueId add_value(uint32_t node, const at::Tensor& fake, graph::ValueType type = graph::ValueType::Tensor);
  void know(const at::Tensor& fake, graph::ValueId id) { ids_.set(fake.unsafeGetTensorImpl(), id); }
  void unknow(const at::TensorImpl* impl) { ids_.erase(impl); }

 private:
  graph::Argument argument(const c10::OperatorHandle& op, const c10::IValue& value);
  graph::Argument tensor_argument(const c10::OperatorHandle& op, const at::Tensor& tensor);
  graph::Argument number_argument(const c10::OperatorHandle& op, shapes::Ex expr);
  /// Whether the expression is a constant or has a value. If a tensor has this size, adds the node that reads it.
  bool has_number(shapes::Ex expr);
  /// The expression as an operand of a node that computes a number. It must be a constant or have a value.
  graph::Argument number_operand(shapes::Ex expr) const;
  /// Adds the nodes of the last step of an expression whose parts have values.
  graph::Argument compute_number(shapes::Ex expr);
  graph::Argument compute_sum(shapes::Ex sum);
  graph::Argument compute_product(shapes::Ex product);
  graph::Argument compute_comparison(shapes::Ex comparison);
  graph::Argument add_term(graph::Argument sum, shapes::Ex term, int64_t times);
  graph::Argument add_step(shapes::Op op, shapes::Type type, graph::Argument a, graph::Argument b);
  /// From now on `value` is the number tensor of `expr`.
  void learn_number(shapes::Ex expr, graph::ValueId value);
  graph::ValueId result_value(const c10::OperatorHandle& op, uint32_t node, const at::Tensor& tensor);
  /// Adds nodes that read the sizes of the operands whose sizes the operator changes: after it, the tensors no longer
  /// have them. Returns these operands.
  std::vector<graph::ValueId> keep_sizes(const c10::OperatorHandle& op, const std::vector<graph::Argument>& args);
  /// Notes the storages that the node writes to, and makes definitions of the values that it does not return.
  void define_written(uint32_t node);
  void record_results(const c10::OperatorHandle& op, uint32_t node, at::ArrayRef<c10::IValue> returns);

  std::shared_ptr<graph::Graph> graph_ = std::make_shared<graph::Graph>();
  PointerMap<graph::ValueId> ids_;           // by TensorImpl
  std::unordered_set<const void*> written_;  // storages that nodes wrote to
  Numbers numbers_;
  shapes::ShapeEnv* env_;
  Symbols symbols_;
  ComputedSums sums_;
  Place place_;
};

/// The list above autograd. The graph's values own the fakes, so addresses identify tensors.
class AboveRecorder final : public Recorder {
 public:
  using Recorder::Recorder;
  void adopt(const at::Tensor& fake, graph::ValueId id) override;

 private:
  graph::ValueId resolve(const c10::OperatorHandle& op, const at::Tensor& tensor) override;
  graph::ValueInfo describe(graph::ValueId id, const at::Tensor& fake) override;
  void returned(graph::ValueId id, const at::Tensor& fake) override {}
  void forget(graph::ValueId id) override;

  std::vector<at::Tensor> kept_;  // known tensors that are not the fake of a value
};

}  // namespace stator::tracer
