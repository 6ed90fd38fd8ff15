#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <unordered_map>

#include "core/base/export.h"

/// Fakes with a real twin: the program computes with the fake, and operators run on the real tensor. A fake, its views
/// and its shallow copies own their twins; when the program drops a fake, the data goes.
namespace stator::fake {

class LivingTwins;

/// Makes twinned fakes. Real tensors that share a storage give fakes that share a storage. Not thread-safe.
class STATOR_API Twins {
 public:
  Twins();
  ~Twins();
  Twins(const Twins&) = delete;

  /// A fake with the metadata of `real`, which must be a plain strided tensor (see `can_have_fake`).
  at::Tensor make(const at::Tensor& real);
  /// The fake storage that stands for the storage of `real`: real tensors that share memory get fakes that share it.
  c10::Storage storage_of(const at::Tensor& real);
  /// Makes each fake that lives the tensor that its twin is: it has the twin's data, and no twin any more.
  void release();

 private:
  template <class T>
  using Weak = c10::weak_intrusive_ptr<T>;
  struct Pair {
    Weak<c10::StorageImpl> real, fake;
  };

  std::unordered_map<const c10::StorageImpl*, Pair> storages_;
  size_t sweep_at_ = 1024;
  std::unique_ptr<LivingTwins> living_;
};

/// Whether a tensor has a fake: strided, not quantized, not on the meta device, without a Python dispatch.
STATOR_API bool can_have_fake(const at::Tensor& real);
/// The real tensor of a twinned fake; undefined for others.
STATOR_API at::Tensor twin_of(const at::Tensor& fake);
/// After an operator changed the real tensor's geometry or storage: the fake gets them too.
STATOR_API void follow_twin(const at::Tensor& fake, Twins& twins);

}  // namespace stator::fake
