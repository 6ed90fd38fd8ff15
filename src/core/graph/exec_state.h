#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// The ambient state of this thread. Takes a few nanoseconds while autocast is off. `region` is stored while it is on;
/// with autocast off, everything about it has its default, so that equal behaviour means equal states.
STATOR_API ExecState current_state(uint32_t region = 0);
/// Whether this thread is in `state` (ignoring regions), without building an ExecState.
STATOR_API bool is_current(const ExecState& state);
/// Whether some `autocast` block, enabled or not, is open on this thread.
STATOR_API bool in_autocast_block();

/// RAII: switches this thread between recorded states, and restores its own state in the destructor.
/// No other code may change the thread's state meanwhile. Costs nothing until the first `enter` that differs.
class STATOR_API StateSwitcher {
 public:
  StateSwitcher() = default;
  ~StateSwitcher();
  StateSwitcher(const StateSwitcher&) = delete;
  StateSwitcher& operator=(const StateSwitcher&) = delete;

  /// `below_autograd` also skips the autograd kernels; views and version counters are still kept.
  void enter(const ExecState& state, bool below_autograd = false);

 private:
  struct Saved {
    ExecState state;
    bool forward_grad;
    bool multithreading;
    bool cache;  // whether casts were cached
    c10::impl::LocalDispatchKeySet keys;
    std::vector<std::pair<c10::DeviceType, c10::ScalarType>> dtypes;  // of devices whose autocast dtype was changed
  };
  void switch_autocast(const ExecState& state);
  void leave_region() noexcept;

  std::optional<Saved> saved_;
  std::optional<uint32_t> region_;  // the autocast region for which one level of nesting is open
};

}  // namespace stator::graph
