#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/check.h"
#include "core/base/fork_safe.h"

namespace stator::ops {

/// Facts about operators. The caller computes them at the first use of an operator and inserts them. `Facts` has a
/// member `const c10::FunctionSchema* schema`, the key. The table uses open addressing on the schema's address. `find`
/// takes no lock and builds no string. A cache is made by `new` at namespace scope and lives as long as the process.
template <class Facts>
class OperatorCache {
 public:
  OperatorCache()
      : listener_(*new c10::RegistrationHandleRAII(
            c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<ForgetDeregistered>(*this)))) {}
  ~OperatorCache() = delete;
  OperatorCache(const OperatorCache&) = delete;

  /// Null before the first `insert` for this operator.
  const Facts* find(const c10::OperatorHandle& op) const { return find(&op.schema()); }

  /// Returns what another thread inserted if that came first.
  const Facts* insert(Facts facts) {
    std::lock_guard lock(mutex_);
    if (const Facts* present = find(facts.schema)) return present;
    STATOR_CHECK(used_ < kSlots / 2, "more operators than slots");
    ++used_;
    size_t i = slot(facts.schema);
    while (slots_[i].load(std::memory_order_relaxed)) i = next(i);
    const Facts* made = new Facts(std::move(facts));
    slots_[i].store(made, std::memory_order_release);
    return made;
  }

 private:
  /// Removes the facts of an operator that is deregistered. Torch frees its schema, and another schema may get the same
  /// address.
  class ForgetDeregistered : public c10::OpRegistrationListener {
   public:
    explicit ForgetDeregistered(OperatorCache& cache) : cache_(cache) {}
    void onOperatorRegistered(const c10::OperatorHandle&) override {}
    void onOperatorDeregistered(const c10::OperatorHandle& op) override {
      if (op.hasSchema()) cache_.forget(&op.schema());
    }

   private:
    OperatorCache& cache_;
  };

  const Facts* find(const c10::FunctionSchema* schema) const {
    for (size_t i = slot(schema);; i = next(i)) {
      const Facts* facts = slots_[i].load(std::memory_order_acquire);
      if (!facts || facts->schema == schema) return facts;
    }
  }

  void forget(const c10::FunctionSchema* schema) {
    std::lock_guard lock(mutex_);
    for (size_t i = slot(schema);; i = next(i)) {
      const Facts* facts = slots_[i].load(std::memory_order_relaxed);
      if (!facts) return;
      // The facts themselves are leaked: another thread may be using them.
      if (facts->schema == schema) return slots_[i].store(&tombstone_, std::memory_order_release);
    }
  }

  static constexpr size_t kBits = 14;
  static constexpr size_t kSlots = size_t{1} << kBits;
  static size_t slot(const void* address) {
    return (reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15ull) >> (64 - kBits);
  }
  static size_t next(size_t i) { return (i + 1) % kSlots; }

  const Facts tombstone_{};  // takes the slot of forgotten facts, so that `find` goes on to the slots behind it
  std::array<std::atomic<const Facts*>, kSlots> slots_{};
  ForkSafeMutex& mutex_ = *new ForkSafeMutex;
  size_t used_ = 0;
  c10::RegistrationHandleRAII& listener_;
};

}  // namespace stator::ops
