#pragma once

#include <cstdint>
#include <optional>

#include "capture/call/break_id.h"
#include "capture/interpreter/state/attempt_options.h"

/// The retry policy of a capture: plain data, and a pure function from one attempt and its outcome to the next attempt.
/// Nothing here needs Python; tests/cpp/compile/next_attempt_test.cpp covers every transition.
namespace stator {

/// A capture never makes more attempts than this.
constexpr int kMaxAttempts = 32;

/// What holds for all attempts of one capture.
struct CaptureRules {
  bool fullgraph = false;  // a graph break is an error
  bool may_split = false;  // the plan may end before an instruction that does not break
};

/// Where the plan has to end although nothing breaks there, and the reason that is reported.
struct PlanEnd {
  uint64_t step = 0;  // 0: at the frame's end
  capture::BreakId why = capture::BreakId::break_after;
};

/// Why an attempt is made.
enum class Purpose : uint8_t {
  First,
  HookOnCopy,     // a hook was registered on a tensor that is written later: register it on a copy
  CallByNode,     // a function allowed in graphs was not understood: call it by a node
  ReachBreak,     // stop just before the graph break, with a plan that rebuilds the frames there
  NoAssumptions,  // the graph would verify an assumption after an unrecoverable write: assume nothing
  ReadItems,      // one graph was asked for: read the integers in input tensors
  Split,          // the graph must not hold an operator that cannot be undone: end the plan before it
};

/// The graph break, or the exception leaving the frame, that ended an attempt.
struct BreakPoint {
  capture::BreakId id = capture::BreakId::internal;
  bool is_error = false;    // the function in whose body it is was compiled to raise an error at a graph break
  bool raised = false;      // an exception of the program left the frame
  uint64_t step = 0;        // stop before this step to rebuild the frames there; 0: no step will do
  uint64_t outer_step = 0;  // the step at which the outermost frame stands
};

struct Attempt {
  CaptureRules rules;
  Purpose purpose = Purpose::First;
  int number = 1;  // among the attempts of its capture
  capture::AttemptOptions options;
  PlanEnd plan_end;
  // Of CallByNode and ReachBreak:
  BreakPoint broke;  // the break that this attempt answers
  int reaches = 0;   // how many attempts tried to reach it, this one included
};

/// How an attempt ended.
enum class End : uint8_t { Finished, Stopped, Broke };

/// What an attempt produced, as far as the policy needs to know.
struct Outcome {
  End end = End::Finished;
  // Broke:
  BreakPoint broke;
  /// The state at the stop holds what cannot be rebuilt (an exception that is alive, say): stop before this step, which
  /// made it. 0: there is none.
  uint64_t earlier_step = 0;
  bool earlier_is_hook = false;     // what that step made is a hook on a tensor that is written later
  PyCodeObject* allowed = nullptr;  // the innermost function allowed in graphs that was running; null: none
  bool node_failed = false;         // a function could not be called by a node
  // Stopped:
  bool handled = false;  // where it stopped, a frame has a handler for exceptions
  // Finished, Stopped:
  bool verifies_late = false;    // the graph verifies an assumption after an unrecoverable write
  std::optional<PlanEnd> split;  // where the plan has to end instead
};

/// What becomes of an attempt, and whether another one is made.
struct Decision {
  enum class Keep : uint8_t {
    Nothing,  // the attempt is dropped; what was kept before stays
    Plan,     // the capture's guards and plan come from this attempt; the break that is reported stays the one before
    All,      // the attempt is the capture's result so far, and its break is reported
  };
  Keep keep = Keep::Nothing;
  std::optional<Attempt> next;  // empty: the capture ends with what was kept
  // Of the last decision:
  bool runs_plain = false;  // no attempt could stop at the break: CPython runs the rest of the frame
  bool raises = false;      // the break is an exception of the program that leaves the frame
};

/// The first attempt of a capture whose plan has to end there.
Attempt first_attempt(const CaptureRules& rules, const PlanEnd& plan_end);

Decision next_attempt(const Attempt& attempt, const Outcome& outcome);

}  // namespace stator
