#pragma once

#include <c10/util/DimVector.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/fake/observer.h"
#include "core/tracer/recorder.h"

namespace stator::tracer {

/// Where the values of a graph lie. By value: the number of its storage and its offset there; -1 where they are not
/// known. By storage: its bytes.
struct Memories {
  std::vector<int64_t> storages, offsets;
  std::vector<c10::SymInt> bytes;
};

/// Records the list below autograd: the operators that reach the `Fake` key while an operator of the list above runs.
///
/// Autograd decides by reference counts whether it may reuse a new view's TensorImpl or must make a shallow copy of
/// it, so this recorder holds tensors weakly: their addresses are not reused, and their counts do not change. Metadata
/// is copied when a value is made. A shallow copy by autograd (same storage, same geometry) is recorded as an `alias`.
class BelowRecorder : public Recorder, public fake::Observer {
 public:
  /// `copied_by`: the operator that represents a shallow copy.
  BelowRecorder(std::string graph_name, shapes::ShapeEnv* symbols);
  BelowRecorder(std::string graph_name, shapes::ShapeEnv* symbols, c10::OperatorHandle copied_by);

  void adopt(const at::Tensor& fake, graph::ValueId id) override;
  /// The value of an output tensor; kNoValue if this list did not make it.
  graph::ValueId output(const at::Tensor& fake);
  Memories memories() const;

  void before(const c10::OperatorHandle& op, const torch::jit::Stack& stack) override;
  void after(const c10::OperatorHandle& op, const torch::jit::Stack& stack) override;

 protected:
  graph::ValueId number_value(const c10::OperatorHandle& op, shapes::Ex expr) override;
  graph::ValueId resolve(const c10::OperatorHandle& op, const at::Tensor& tensor) override;
  void returned(graph::ValueId id, const at::Tensor& fake) override;
  /// Whether a known tensor has the storage and the geometry that the last operator on it left.
  bool is_unchanged(graph::ValueId id, const at::Tensor& tensor) const;
  /// Ends the use of a tensor as this value, because its data was replaced. The value itself stays.
  void leave(graph::ValueId id);

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct SymbolicGeometry {
    SymbolicGeometry(std::vector<c10::SymInt> sizes, std::vector<c10::SymInt> strides, c10::SymInt offset)
        : sizes(std::move(sizes)), strides(std::move(strides)), offset(std::move(offset)) {}
    std::vector<c10::SymInt> sizes, strides;
    c10::SymInt offset;
  };
  /// Per value: data beside the graph's. Empty for removed values.
  struct Known {
    const c10::TensorImpl* impl = nullptr;
    c10::Storage storage;
    int64_t offset = 0;
    c10::DispatchKeySet bits;  // conjugate, negative
    caffe2::TypeMeta dtype;
    c10::DimVector sizes, strides;  // empty where they are symbolic
    std::unique_ptr<SymbolicGeometry> symbolic;
  };
  static bool is_same(const Known& known, const at::Tensor& tensor);

  graph::ValueInfo describe(graph::ValueId id, const at::Tensor& fake) override;
  void forget(graph::ValueId id) override;

  void remember(graph::ValueId id, const at::Tensor& fake);
  void leave_storage(graph::ValueId id);
  graph::ValueId same_head(const at::Tensor& tensor) const;

  const c10::OperatorHandle copied_by_;
  std::vector<graph::Argument> pending_;  // operands of the running operator
  std::vector<Known> known_;
  std::unordered_map<const c10::StorageImpl*, std::vector<graph::ValueId>> by_storage_;
  std::vector<Weak> held_;
};

}  // namespace stator::tracer
