#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/pointer_map.h"
#include "core/graph/graph.h"
#include "core/shapes/expression.h"
#include "core/tracer/numbers.h"
#include "core/tracer/symbols.h"

namespace stator::tracer {

/// Where a node comes from, besides its operator and operands.
struct Place {
  uint32_t state = 0;
  uint32_t location = 0;
};

/// Why an operator is refused that takes a number which depends on data as a tensor: it takes the number tensor itself.
inline constexpr char kNumberAsTensor[] = "a number that depends on data in the place of a tensor";

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& why);

/// Writes operator calls into one graph and knows which tensor is which value. The two lists of a trace differ in how
/// they hold tensors, and in what they do with one that no recorded operator made.
class Recorder {
 public:
  explicit Recorder(std::string graph_name);
  virtual ~Recorder() = default;
  Recorder(const Recorder&) = delete;

  graph::Graph& graph() { return *graph_; }
  std::shared_ptr<graph::Graph> share_graph() { return graph_; }

  graph::ValueId add_input(std::string name, const at::Tensor& fake);
  /// A node that gives each run a fresh copy of `data`.
  void add_constant(const at::Tensor& data, const at::Tensor& fake);
  /// Of the nodes recorded from now on.
  void set_place(Place place) { place_ = place; }
  /// kNoValue for tensors not known.
  graph::ValueId find(const at::Tensor& tensor) const;
  /// `fake`, which no operator made, stands for the value `id` from now on.
  virtual void adopt(const at::Tensor& fake, graph::ValueId id) = 0;

  /// The operands of a call, taken before it runs: it may change what they are.
  std::vector<graph::Argument> arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  /// Adds the node of a call that has run. False: it only answered a question about metadata, which is a constant of
  /// the trace. Throws, with nothing added, for results that can't be values.
  bool record(const c10::OperatorHandle& op, std::vector<graph::Argument> args, const torch::jit::Stack& stack);

  /// The number tensor that holds a number which depends on data; nodes that compute it are added where they are
  /// missing. Refuses, naming `op`, what the graph cannot tell.
  virtual graph::ValueId number_value(const c10::OperatorHandle& op, const shapes::Expr& expr);
  /// A node that gives the number tensor of `expr`.
  graph::ValueId add_number(const c10::OperatorHandle& op, std::vector<graph::Argument> args, const shapes::Expr& expr);
  /// The number tensor `id` holds `expr` too.
  void learn_number(const shapes::Expr& expr, graph::ValueId id) { symbols_.learn_number(expr, id); }

  size_t mark() const { return graph_->nodes.size(); }
  void rollback(size_t mark);

 protected:
  /// The value of a fake that is not known, or a refusal.
  virtual graph::ValueId resolve(const c10::OperatorHandle& op, const at::Tensor& tensor) = 0;
  /// What the graph keeps of a fresh value, which is to be `id`.
  virtual graph::ValueInfo describe(graph::ValueId id, const at::Tensor& fake) = 0;
  /// An operator gave back a tensor that is known.
  virtual void returned(graph::ValueId id, const at::Tensor& fake) = 0;
  /// The value is about to be forgotten.
  virtual void forget(graph::ValueId id) = 0;

  graph::Node& add_node(const c10::OperatorHandle& op, std::vector<graph::Argument> args);
  graph::ValueId add_value(uint32_t node, const at::Tensor& fake);
  void know(const at::Tensor& fake, graph::ValueId id) { ids_.set(fake.unsafeGetTensorImpl(), id); }
  void unknow(const at::TensorImpl* impl) { ids_.erase(impl); }

 private:
  graph::Argument argument(const c10::OperatorHandle& op, const c10::IValue& value);
  graph::Argument tensor_argument(const c10::OperatorHandle& op, const at::Tensor& tensor);
  graph::Argument number_argument(const c10::OperatorHandle& op, const shapes::Expr& expr);
  graph::ValueId result_value(const c10::OperatorHandle& op, uint32_t node, const at::Tensor& tensor);
  void record_results(const c10::OperatorHandle& op, uint32_t node, at::ArrayRef<c10::IValue> returns);

  std::shared_ptr<graph::Graph> graph_ = std::make_shared<graph::Graph>();
  PointerMap<graph::ValueId> ids_;  // by TensorImpl
  Numbers numbers_;
  Symbols symbols_;
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

  std::vector<at::Tensor> kept_;  // known tensors that are no value's fake
};

}  // namespace stator::tracer
