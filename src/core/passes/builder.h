#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/fake/fake_tensor.h"
#include "core/fake/observer.h"
#include "core/graph/exec_state.h"
#include "core/graph/graph.h"
#include "core/shapes/env.h"
#include "core/tracer/recorder.h"

namespace stator::passes {

/// Builds a graph by calling operators on fakes. A call runs the shape function and becomes a node, so that metadata
/// and aliasing of the results are those of a real run. Fakes identify values; the builder keeps them alive. Symbolic
/// numbers that are passed to a call become nodes where the graph needs their values.
///
/// One thread. Throws what shape functions throw: c10::Error, fake::Unsupported.
class Builder final : private fake::Observer {
 public:
  /// The graph gets the name, the states, the locations and the ranges of `like`, and shares its environment of
  /// symbols.
  explicit Builder(const graph::Graph& like);
  ~Builder() override;

  /// The next input, like one of another graph. Inputs that share memory there share it here. A fake, or for an input
  /// that is a number the symbolic number.
  c10::IValue add_input(const graph::Graph& from, size_t position);
  /// A new copy of `data` in each run.
  at::Tensor add_constant(const at::Tensor& data);
  /// A fake of a tensor that the graph owns and nodes take as a constant.
  at::Tensor constant(const at::Tensor& data);

  /// Sets state, location and range of the nodes that follow: those of a node of `like`.
  void enter(const graph::Node& node);

  /// Calls the operator. The arguments on the stack are replaced by the results.
  void run(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  /// The same for an operator with one result that is a tensor.
  at::Tensor call(const c10::OperatorHandle& op, std::vector<c10::IValue> args);
  /// Records what the function calls, below autograd: composite operators are seen as the operators that they call.
  /// `with_casts`: autocast acts as the state says, and its casts are recorded.
  void observe(const std::function<void()>& calls, bool with_casts = false);
  /// Records a node without running it: `results` are its results.
  void record(const c10::OperatorHandle& op, std::vector<graph::Argument> args, const torch::jit::Stack& results);
  /// A node that reads the only element of a tensor.
  c10::IValue item(const at::Tensor& fake);
  /// A number in a tensor's place.
  at::Tensor boxed(const c10::IValue& number);
  /// An expression as a plain or symbolic number.
  static c10::IValue number(shapes::Ex expr);
  /// A plain or symbolic number as an expression of the environment.
  shapes::Ex expression(const c10::IValue& number);

  graph::Argument operand(const at::Tensor& fake) const;
  graph::Argument number_operand(const c10::OperatorHandle& op, const c10::IValue& number);
  /// The value of a number; a constant becomes one too.
  graph::ValueId number_value(const c10::IValue& number);

  size_t mark() { return recorder_.mark(); }
  /// Removes the nodes since `mark`.
  void rollback(size_t mark) { recorder_.rollback(mark); }

  graph::Graph& graph() { return recorder_.graph(); }
  shapes::ShapeEnv& symbols() { return *env_; }
  /// Ends the build. The graph owns its fakes.
  std::shared_ptr<graph::Graph> finish(const std::vector<graph::ValueId>& outputs);

 private:
  void before(const c10::OperatorHandle& op, const torch::jit::Stack& stack) override;
  void after(const c10::OperatorHandle& op, const torch::jit::Stack& stack) override;
  std::vector<graph::Argument> arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  at::Tensor input_fake(const graph::Graph& from, graph::ValueId id);

  shapes::EnvPtr env_;
  tracer::AboveRecorder recorder_;
  graph::StateSwitcher switcher_;
  std::vector<graph::Argument> pending_;
  fake::FakeMode constants_;
  std::vector<std::pair<at::Tensor, at::Tensor>> constant_data_;  // fake, data
  std::unordered_map<const void*, c10::Storage> storages_;        // of inputs: by storage in the other graph
  const size_t num_guards_;
  const bool was_poisoned_;
};

/// The operator of this name: `aten::add.Tensor`. Throws if there is none.
c10::OperatorHandle operator_named(const std::string& name);

/// A fake of a value whose metadata alone is known.
at::Tensor fake_of(const graph::TensorMeta& meta);

}  // namespace stator::passes
