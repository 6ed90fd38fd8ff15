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
///
/// Autocast's cache of casts is emptied where one region ends and the next begins. Region 0 is the one at entry.
class STATOR_API StateSwitcher {
 public:
  StateSwitcher() = default;
  ~StateSwitcher();
  StateSwitcher(const StateSwitcher&) = delete;
  StateSwitcher& operator=(const StateSwitcher&) = delete;

  /// `below_autograd` also skips the autograd kernels; views and version counters are still kept.
  void enter(const ExecState& state, bool below_autograd = false);
  /// To be called after the last node, with the region that is current there: its casts stay for the code that follows.
  /// Without it (a node failed), the destructor drops casts that no open block of the program made.
  void end(uint32_t region) noexcept;

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
  void enter_region(uint32_t region) noexcept;
  std::optional<Saved> saved_;
  uint32_t region_ = 0;
  bool may_hold_casts_ = false;  // since a state with autocast was entered, until `end`
};

}  // namespace stator::graph
