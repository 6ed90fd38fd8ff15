#pragma once

#include <c10/util/intrusive_ptr.h>

#include <unordered_map>
#include <vector>

#include "core/fake/observer.h"
#include "core/tracer/recorder.h"

namespace stator::tracer {

/// The list below autograd: what reaches the `Fake` key while an operator of the list above runs.
///
/// Autograd decides by reference counts whether it may turn a fresh view into a tensor of its own or has to copy its
/// head, so this recorder only holds tensors weakly: their addresses stay taken, their counts as they were. Metadata is
/// copied when a value is made. A head that autograd did copy (same storage, same geometry) is written as an `alias`.
class BelowRecorder final : public Recorder, public fake::Observer {
 public:
  explicit BelowRecorder(std::string graph_name);

  void adopt(const at::Tensor& fake, graph::ValueId id) override;
  /// The value of a tensor that is to be an output; kNoValue when this list did not make it.
  graph::ValueId output(const at::Tensor& fake);

  void before(const c10::OperatorHandle& op, const torch::jit::Stack& stack) override;
  void after(const c10::OperatorHandle& op, const torch::jit::Stack& stack) override;

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  /// By value, besides what the graph holds. Empty for holes.
  struct Known {
    const c10::TensorImpl* impl = nullptr;
    c10::Storage storage;
    int64_t offset = 0;
    c10::DispatchKeySet bits;  // conjugate, negative
  };

  graph::ValueId number_value(const c10::OperatorHandle& op, const shapes::Expr& expr) override;
  graph::ValueId resolve(const c10::OperatorHandle& op, const at::Tensor& tensor) override;
  graph::ValueInfo describe(graph::ValueId id, const at::Tensor& fake) override;
  void returned(graph::ValueId id, const at::Tensor& fake) override;
  void forget(graph::ValueId id) override;

  void remember(graph::ValueId id, const at::Tensor& fake);
  void leave_storage(graph::ValueId id);
  graph::ValueId same_head(const at::Tensor& tensor) const;

  std::vector<graph::Argument> pending_;  // operands of the operator that is running
  std::vector<Known> known_;
  std::unordered_map<const c10::StorageImpl*, std::vector<graph::ValueId>> by_storage_;
  std::vector<Weak> held_;
};

}  // namespace stator::tracer
