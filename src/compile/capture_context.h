#pragma once

#include <memory>
#include <string>

#include "capture/guards/global_state.h"
#include "capture/interpreter/protocol/interpreter.h"
#include "compile/attempt.h"
#include "compile/pipeline.h"

namespace stator {

/// Restores grad mode, autocast and dispatcher keys when it dies, whatever the captured program switched.
class StateKeeper {
 public:
  StateKeeper() : before_(capture::GlobalState::current()) {}
  ~StateKeeper() { before_->restore(); }
  StateKeeper(const StateKeeper&) = delete;
  StateKeeper& operator=(const StateKeeper&) = delete;
  std::shared_ptr<const capture::GlobalState> before() const { return before_; }
  bool is_changed() const { return !before_->matches_but_modes() || !before_->has_same_autocast_depth(); }

 private:
  std::shared_ptr<const capture::GlobalState> before_;
};

/// What all parts of one capture are given. It owns nothing.
struct CaptureContext {
  const capture::Start& start;
  const CompileRequest& request;
  const std::string& graph_name;
  const StateKeeper& state;
  const KnownBreaks& known_breaks;
  const std::optional<PlanEnd>& plan_end;  // empty: as the settings say
};

}  // namespace stator
