#include "compile/attempt.h"

#include <algorithm>

namespace stator {
using capture::BreakId;
using Keep = Decision::Keep;

namespace {

/// How often a break is approached: at its own step, before what cannot be rebuilt there, at the outermost frame.
constexpr int kMaxReaches = 3;

/// Attempts that may follow any other because correctness needs them: to reach a break (3), then without assumptions
/// (1 + 3), split (1 + 3), and split without assumptions (1 + 3).
constexpr int kReserved = 15;

/// Whether an attempt may be spent on capturing more.
bool may_try_more(const Attempt& attempt) { return attempt.number < kMaxAttempts - kReserved; }

/// The next attempt, from the start to the plan's end, with the same options.
Attempt again(const Attempt& before, Purpose purpose) {
  Attempt next = before;
  next.purpose = purpose;
  next.number = before.number + 1;
  next.options.stop_before = before.plan_end.step;
  next.broke = {};
  next.reaches = 0;
  return next;
}

/// Whether the break is to be reported as an error.
bool is_strict(const Attempt& attempt, const BreakPoint& broke) { return attempt.rules.fullgraph || broke.is_error; }

/// The break stands: CPython runs the rest of the frame, or (strict) the error is reported.
Decision cannot_reach(const Attempt& attempt, const BreakPoint& broke, Keep keep) {
  const bool strict = is_strict(attempt, broke);
  return {keep, {}, !strict, !strict && broke.raised};
}

Decision reach(const Attempt& before, const BreakPoint& broke, uint64_t step, Keep keep) {
  Attempt next = again(before, Purpose::ReachBreak);
  next.options.stop_before = step;
  next.broke = broke;
  next.reaches = before.reaches + 1;
  return {keep, std::move(next)};
}

/// After a break that neither a hook on a copy nor a node avoids. `keep`: what becomes of the attempt that just ended.
Decision after_break(const Attempt& attempt, const BreakPoint& broke, Keep keep) {
  // An exception that the program raises, and does not handle, is no error of the capture. An attempt that stops before
  // it tells whether it is handled.
  const bool may_be_programs = broke.id == BreakId::raises || broke.id == BreakId::torch_error;
  const bool refused = is_strict(attempt, broke) && !may_be_programs;
  if (!refused && !(attempt.rules.fullgraph && broke.raised))
    return broke.step == 0 ? cannot_reach(attempt, broke, keep) : reach(attempt, broke, broke.step, keep);
  const bool may_read = attempt.rules.fullgraph && broke.id == BreakId::data_dependent;
  if (may_read && !attempt.options.reads_items && may_try_more(attempt)) {
    Attempt next = again(attempt, Purpose::ReadItems);
    next.options.reads_items = true;
    next.options.may_assume = true;
    return {keep, std::move(next)};
  }
  return {keep, {}, false, broke.raised};
}

/// After an attempt that made a graph: `accepted`, unless the graph must not run as it is.
Decision after_graph(const Attempt& attempt, const Outcome& outcome, Decision accepted) {
  if (attempt.options.may_assume && outcome.verifies_late) {
    Attempt next = again(attempt, Purpose::NoAssumptions);
    next.options.may_assume = false;
    return {Keep::Nothing, std::move(next)};
  }
  if (attempt.rules.may_split && attempt.plan_end.step == 0 && outcome.split) {
    Attempt next = again(attempt, Purpose::Split);
    next.plan_end = *outcome.split;
    next.options.stop_before = next.plan_end.step;
    next.options.may_assume = true;
    return {Keep::Nothing, std::move(next)};
  }
  return accepted;
}

/// After an attempt to stop at a break.
Decision after_reach(const Attempt& attempt, const Outcome& outcome) {
  const BreakPoint& broke = attempt.broke;
  if (outcome.end == End::Stopped) {
    const bool strict = is_strict(attempt, broke);
    // If the program may handle the exception, it goes on behind it: then the break is reported.
    const bool raises = strict ? !outcome.handled : broke.raised;
    if (strict && (attempt.rules.fullgraph || !raises)) return {Keep::Nothing, {}, false, raises};
    return after_graph(attempt, outcome, {Keep::Plan, {}, false, raises});
  }
  // What cannot be rebuilt in an inlined frame need not be where the outermost frame stands.
  const uint64_t step = outcome.earlier_step ? outcome.earlier_step : broke.outer_step;
  if (attempt.reaches < kMaxReaches && step > 0 && step < attempt.options.stop_before)
    return reach(attempt, broke, step, Keep::Nothing);
  return cannot_reach(attempt, broke, Keep::Nothing);
}

}  // namespace

Attempt first_attempt(const CaptureRules& rules, const PlanEnd& plan_end) {
  Attempt attempt{rules};
  attempt.plan_end = plan_end;
  attempt.options.stop_before = plan_end.step;
  attempt.options.may_assume = true;
  return attempt;
}

Decision next_attempt(const Attempt& attempt, const Outcome& outcome) {
  if (attempt.purpose == Purpose::ReachBreak) return after_reach(attempt, outcome);
  if (outcome.end != End::Broke) return after_graph(attempt, outcome, {Keep::All});

  if (attempt.purpose == Purpose::CallByNode && outcome.node_failed) {
    // Back to the break that the node was to avoid, whose attempt was kept.
    Attempt before = attempt;
    before.options.as_nodes.pop_back();
    return after_break(before, attempt.broke, Keep::Nothing);
  }
  const std::vector<uint64_t>& copies = attempt.options.hooks_on_copies;
  const bool is_new_hook =
      outcome.earlier_is_hook && std::find(copies.begin(), copies.end(), outcome.earlier_step) == copies.end();
  if (is_new_hook && may_try_more(attempt)) {
    Attempt next = again(attempt, Purpose::HookOnCopy);
    next.options.hooks_on_copies.push_back(outcome.earlier_step);
    return {Keep::Nothing, std::move(next)};
  }
  BreakPoint broke = outcome.broke;
  if (outcome.earlier_step) broke.step = outcome.earlier_step;
  // A node calls the function on fakes: that does not help where it asks for data, or where an operator fails.
  const bool may_be_node = outcome.allowed && broke.id != BreakId::data_dependent && broke.id != BreakId::torch_error;
  if (may_be_node && may_try_more(attempt)) {
    Attempt next = again(attempt, Purpose::CallByNode);
    next.options.as_nodes.push_back(outcome.allowed);
    next.broke = broke;
    return {Keep::All, std::move(next)};
  }
  return after_break(attempt, broke, Keep::All);
}

}  // namespace stator
