#pragma once

#include <string>
#include <vector>

#include "core/tracer/below.h"
#include "core/tracer/function_tracer.h"

namespace stator::tracer {

/// Makes what a list does not have an attribute; false if it cannot.
struct BringIn {
  std::function<bool(const at::Tensor&)> tensor;
  std::function<bool(shapes::Ex)> symbol;
};

/// The list of a `FunctionTracer`. Tensors from outside become inputs of the graph when an operator uses them.
class FunctionRecorder final : public BelowRecorder {
 public:
  FunctionRecorder(std::string name, shapes::ShapeEnv* symbols, const FunctionTracerHost* host, BringIn bring_in);

  /// Results of operators are recorded by `FunctionTracer` itself.
  void before(const c10::OperatorHandle&, const torch::jit::Stack&) override {}
  void after(const c10::OperatorHandle&, const torch::jit::Stack&) override {}

  graph::ValueId number_value(const c10::OperatorHandle& op, shapes::Ex expr) override {
    return Recorder::number_value(op, expr);  // NOLINT(bugprone-parent-virtual-call): this list has numbers
  }
  graph::ValueId value_of(const at::Tensor& tensor) { return output(tensor); }
  /// The program may replace a tensor's data (`b.data = c`): then the tensor is another value.
  graph::ValueId current(const at::Tensor& tensor) override;
  /// Whether the data of an input was replaced.
  bool has_lost_input() const { return has_lost_input_; }
  /// To be called after the tracer itself changed the geometry of a tensor.
  void refresh(const at::Tensor& tensor);

 private:
  void returned(graph::ValueId id, const at::Tensor& fake) override;
  graph::ValueId resolve(const c10::OperatorHandle& op, const at::Tensor& tensor) override;
  bool accepts(const at::Tensor& real) const override { return true; }
  bool accepts(const c10::IValue& object) const override;
  shapes::Expr number_in_place_of(const at::Tensor& placeholder) override;
  bool bring_in(shapes::Ex symbol) override { return bring_in_.symbol(symbol); }

  bool has_lost_input_ = false;
  const FunctionTracerHost* host_;
  const BringIn bring_in_;
};

}  // namespace stator::tracer
