// The retry policy of a capture: each transition, and the bound on the number of attempts.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "compile/attempt.h"

namespace stator {
namespace {

using capture::BreakId;
using Keep = Decision::Keep;

PyCodeObject* code(uintptr_t number) { return reinterpret_cast<PyCodeObject*>(number); }

CaptureRules native_rules() { return {false, true}; }
CaptureRules fullgraph_rules() { return {true, false}; }

Outcome finished() { return {}; }
Outcome stopped(bool handled = false) {
  Outcome outcome;
  outcome.end = End::Stopped;
  outcome.handled = handled;
  return outcome;
}
Outcome broke(BreakId id, uint64_t step = 20, uint64_t outer_step = 10) {
  Outcome outcome;
  outcome.end = End::Broke;
  outcome.broke = {id, false, false, step, outer_step};
  return outcome;
}
Outcome raised() {
  Outcome outcome = broke(BreakId::raises);
  outcome.broke.raised = true;
  return outcome;
}
Outcome forbidden(BreakId id) {
  Outcome outcome = broke(id);
  outcome.broke.is_error = true;
  return outcome;
}
Outcome earlier(uint64_t step, bool is_hook = false) {
  Outcome outcome = broke(is_hook ? BreakId::mutation : BreakId::raises);
  outcome.earlier_step = step;
  outcome.earlier_is_hook = is_hook;
  return outcome;
}

/// The decision is the last one.
void expect_end(const Decision& decision, Keep keep, bool runs_plain = false, bool raises = false) {
  EXPECT_FALSE(decision.next);
  EXPECT_EQ(decision.keep, keep);
  EXPECT_EQ(decision.runs_plain, runs_plain);
  EXPECT_EQ(decision.raises, raises);
}

/// Another attempt follows; returns it.
Attempt expect_next(const Decision& decision, const Attempt& before, Purpose purpose, Keep keep) {
  EXPECT_TRUE(decision.next);
  if (!decision.next) return before;
  EXPECT_EQ(decision.keep, keep);
  EXPECT_EQ(decision.next->purpose, purpose);
  EXPECT_EQ(decision.next->number, before.number + 1);
  return *decision.next;
}

TEST(FirstAttempt, GoesToTheEndAndMayAssume) {
  Attempt first = first_attempt(native_rules(), {});
  EXPECT_EQ(first.purpose, Purpose::First);
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(first.options.stop_before, 0u);
  EXPECT_TRUE(first.options.may_assume);
  EXPECT_FALSE(first.options.reads_items);
}

TEST(FirstAttempt, StopsWhereThePlanHasToEnd) {
  Attempt first = first_attempt(native_rules(), {7, BreakId::break_after});
  EXPECT_EQ(first.options.stop_before, 7u);
  expect_end(next_attempt(first, stopped()), Keep::All);
}

TEST(NextAttempt, AcceptsAFinishedGraph) {
  expect_end(next_attempt(first_attempt(native_rules(), {}), finished()), Keep::All);
  expect_end(next_attempt(first_attempt(fullgraph_rules(), {}), finished()), Keep::All);
}

TEST(NextAttempt, ReachesABreakAndKeepsItsPlan) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt reach = expect_next(next_attempt(first, broke(BreakId::unknown_call)), first, Purpose::ReachBreak, Keep::All);
  EXPECT_EQ(reach.options.stop_before, 20u);
  EXPECT_EQ(reach.reaches, 1);
  EXPECT_TRUE(reach.options.may_assume);
  expect_end(next_attempt(reach, stopped()), Keep::Plan);
}

TEST(NextAttempt, ReachesAnExceptionThatLeavesTheFrame) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt reach = expect_next(next_attempt(first, raised()), first, Purpose::ReachBreak, Keep::All);
  expect_end(next_attempt(reach, stopped()), Keep::Plan, false, true);
}

TEST(NextAttempt, RunsPlainWhereNoStepWillDo) {
  Attempt first = first_attempt(native_rules(), {});
  expect_end(next_attempt(first, broke(BreakId::internal, 0, 0)), Keep::All, true);
}

TEST(NextAttempt, StopsBeforeWhatCannotBeRebuilt) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt reach = expect_next(next_attempt(first, earlier(12)), first, Purpose::ReachBreak, Keep::All);
  EXPECT_EQ(reach.options.stop_before, 12u);
  Attempt second = expect_next(next_attempt(reach, earlier(11)), reach, Purpose::ReachBreak, Keep::Nothing);
  EXPECT_EQ(second.options.stop_before, 11u);
  EXPECT_EQ(second.reaches, 2);
  expect_end(next_attempt(second, stopped()), Keep::Plan);
}

TEST(NextAttempt, MovesTheStopOutToTheOutermostFrame) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt reach = *next_attempt(first, broke(BreakId::unknown_call)).next;
  // Whether it breaks again or finishes, which it should not: the stop was not reached.
  for (const Outcome& outcome : {broke(BreakId::reconstruct), finished()}) {
    Attempt outer = expect_next(next_attempt(reach, outcome), reach, Purpose::ReachBreak, Keep::Nothing);
    EXPECT_EQ(outer.options.stop_before, 10u);
    expect_end(next_attempt(outer, broke(BreakId::reconstruct)), Keep::Nothing, true);
  }
}

TEST(NextAttempt, GivesUpAfterThreeTriesToReachABreak) {
  Attempt attempt = first_attempt(native_rules(), {});
  Decision decision = next_attempt(attempt, broke(BreakId::unknown_call, 50, 1));
  for (uint64_t step : {40, 30}) {
    attempt = *decision.next;
    decision = next_attempt(attempt, earlier(step));
  }
  EXPECT_EQ(decision.next->reaches, 3);
  expect_end(next_attempt(*decision.next, earlier(20)), Keep::Nothing, true);
}

TEST(NextAttempt, NeverMovesAStopForward) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt reach = *next_attempt(first, broke(BreakId::unknown_call, 20, 20)).next;
  expect_end(next_attempt(reach, broke(BreakId::reconstruct)), Keep::Nothing, true);
  expect_end(next_attempt(reach, earlier(25)), Keep::Nothing, true);
}

TEST(NextAttempt, RefusesABreakInOneGraph) {
  Attempt first = first_attempt(fullgraph_rules(), {});
  expect_end(next_attempt(first, broke(BreakId::unknown_call)), Keep::All);
  expect_end(next_attempt(first, raised()), Keep::All, false, true);
}

TEST(NextAttempt, RefusesAForbiddenBreak) {
  Attempt first = first_attempt(native_rules(), {});
  expect_end(next_attempt(first, forbidden(BreakId::unknown_call)), Keep::All);
}

TEST(NextAttempt, InOneGraphAnOperatorsErrorIsTheProgramsUnlessItIsHandled) {
  Attempt first = first_attempt(fullgraph_rules(), {});
  Attempt reach = expect_next(next_attempt(first, broke(BreakId::torch_error)), first, Purpose::ReachBreak, Keep::All);
  expect_end(next_attempt(reach, stopped(false)), Keep::Nothing, false, true);
  expect_end(next_attempt(reach, stopped(true)), Keep::Nothing, false, false);
  Attempt outer =
      expect_next(next_attempt(reach, broke(BreakId::reconstruct)), reach, Purpose::ReachBreak, Keep::Nothing);
  expect_end(next_attempt(outer, broke(BreakId::reconstruct)), Keep::Nothing, false, false);
}

TEST(NextAttempt, AnOperatorsErrorWhereBreaksAreForbidden) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt reach =
      expect_next(next_attempt(first, forbidden(BreakId::torch_error)), first, Purpose::ReachBreak, Keep::All);
  // Not handled: the program raises it, so that the plan before it is of use.
  expect_end(next_attempt(reach, stopped(false)), Keep::Plan, false, true);
  expect_end(next_attempt(reach, stopped(true)), Keep::Nothing, false, false);
}

TEST(NextAttempt, ReadsItemsOnceInOneGraph) {
  Attempt first = first_attempt(fullgraph_rules(), {});
  Attempt reads =
      expect_next(next_attempt(first, broke(BreakId::data_dependent)), first, Purpose::ReadItems, Keep::All);
  EXPECT_TRUE(reads.options.reads_items);
  EXPECT_TRUE(reads.options.may_assume);
  expect_end(next_attempt(reads, finished()), Keep::All);
  expect_end(next_attempt(reads, broke(BreakId::data_dependent)), Keep::All);
  // Elsewhere a break on data is reached like any other.
  Attempt plain = first_attempt(native_rules(), {});
  expect_next(next_attempt(plain, broke(BreakId::data_dependent)), plain, Purpose::ReachBreak, Keep::All);
}

TEST(NextAttempt, ReadsItemsWithAssumptionsAgain) {
  Attempt first = first_attempt(fullgraph_rules(), {});
  Outcome late = finished();
  late.verifies_late = true;
  Attempt careful = expect_next(next_attempt(first, late), first, Purpose::NoAssumptions, Keep::Nothing);
  Attempt reads =
      expect_next(next_attempt(careful, broke(BreakId::data_dependent)), careful, Purpose::ReadItems, Keep::All);
  EXPECT_TRUE(reads.options.may_assume);
  // What it makes is judged like any other graph.
  Attempt last = expect_next(next_attempt(reads, late), reads, Purpose::NoAssumptions, Keep::Nothing);
  EXPECT_TRUE(last.options.reads_items);
  expect_end(next_attempt(last, finished()), Keep::All);
}

TEST(NextAttempt, AssumesNothingWhereItWouldBeVerifiedTooLate) {
  Attempt first = first_attempt(native_rules(), {});
  Outcome late = finished();
  late.verifies_late = true;
  late.split = PlanEnd{5, BreakId::view_write};  // not yet: another graph comes first
  Attempt careful = expect_next(next_attempt(first, late), first, Purpose::NoAssumptions, Keep::Nothing);
  EXPECT_FALSE(careful.options.may_assume);
  EXPECT_EQ(careful.options.stop_before, 0u);
  late.split.reset();
  expect_end(next_attempt(careful, late), Keep::All);
}

TEST(NextAttempt, AssumesNothingAfterABreakWasReached) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt reach = *next_attempt(first, broke(BreakId::unknown_call)).next;
  Outcome late = stopped();
  late.verifies_late = true;
  Attempt careful = expect_next(next_attempt(reach, late), reach, Purpose::NoAssumptions, Keep::Nothing);
  EXPECT_EQ(careful.options.stop_before, 0u);
  EXPECT_EQ(careful.reaches, 0);
}

TEST(NextAttempt, SplitsOnce) {
  Attempt first = first_attempt(native_rules(), {});
  Outcome outcome = finished();
  outcome.split = PlanEnd{5, BreakId::split_before_fallible_op};
  Attempt split = expect_next(next_attempt(first, outcome), first, Purpose::Split, Keep::Nothing);
  EXPECT_EQ(split.options.stop_before, 5u);
  EXPECT_EQ(split.plan_end.why, BreakId::split_before_fallible_op);
  EXPECT_TRUE(split.options.may_assume);
  Outcome again = stopped();
  again.split = PlanEnd{3, BreakId::view_write};
  expect_end(next_attempt(split, again), Keep::All);
  // It may break before it gets there.
  Attempt reach = expect_next(next_attempt(split, broke(BreakId::user, 4, 4)), split, Purpose::ReachBreak, Keep::All);
  EXPECT_EQ(reach.options.stop_before, 4u);
}

TEST(NextAttempt, SplitsOnlyWhereTheRulesAllowIt) {
  Outcome outcome = finished();
  outcome.split = PlanEnd{5, BreakId::split_before_fallible_op};
  expect_end(next_attempt(first_attempt({}, {}), outcome), Keep::All);
  expect_end(next_attempt(first_attempt(fullgraph_rules(), {}), outcome), Keep::All);
  expect_end(next_attempt(first_attempt(native_rules(), {9, BreakId::break_after}), outcome), Keep::All);
}

TEST(NextAttempt, PutsAHookOnACopy) {
  Attempt first = first_attempt(native_rules(), {});
  Attempt copy = expect_next(next_attempt(first, earlier(8, true)), first, Purpose::HookOnCopy, Keep::Nothing);
  EXPECT_EQ(copy.options.hooks_on_copies, std::vector<uint64_t>{8});
  Attempt other = expect_next(next_attempt(copy, earlier(9, true)), copy, Purpose::HookOnCopy, Keep::Nothing);
  EXPECT_EQ(other.options.hooks_on_copies, (std::vector<uint64_t>{8, 9}));
  // The same step once more: the copy did not help, so that the break is before it.
  Attempt reach = expect_next(next_attempt(other, earlier(8, true)), other, Purpose::ReachBreak, Keep::All);
  EXPECT_EQ(reach.options.stop_before, 8u);
}

TEST(NextAttempt, CallsAnAllowedFunctionByANode) {
  Attempt first = first_attempt(native_rules(), {});
  Outcome outcome = broke(BreakId::unknown_call);
  outcome.allowed = code(1);
  Attempt node = expect_next(next_attempt(first, outcome), first, Purpose::CallByNode, Keep::All);
  EXPECT_EQ(node.options.as_nodes, std::vector<PyCodeObject*>{code(1)});
  EXPECT_EQ(node.options.stop_before, 0u);
  expect_end(next_attempt(node, finished()), Keep::All);
  // Another one behind it.
  outcome.allowed = code(2);
  Attempt both = expect_next(next_attempt(node, outcome), node, Purpose::CallByNode, Keep::All);
  EXPECT_EQ(both.options.as_nodes.size(), 2u);
}

TEST(NextAttempt, GoesBackWhereANodeFailed) {
  Attempt first = first_attempt(native_rules(), {});
  Outcome outcome = broke(BreakId::unknown_call, 33, 30);
  outcome.allowed = code(1);
  Attempt node = *next_attempt(first, outcome).next;
  Outcome failed = broke(BreakId::mutation, 44, 40);
  failed.node_failed = true;
  failed.allowed = code(2);
  Attempt reach = expect_next(next_attempt(node, failed), node, Purpose::ReachBreak, Keep::Nothing);
  EXPECT_TRUE(reach.options.as_nodes.empty());
  EXPECT_EQ(reach.options.stop_before, 33u);
  EXPECT_EQ(reach.broke.outer_step, 30u);
  Attempt strict = first_attempt(fullgraph_rules(), {});
  expect_end(next_attempt(*next_attempt(strict, outcome).next, failed), Keep::Nothing);
}

TEST(NextAttempt, DataAndFailingOperatorsMakeNoNode) {
  Attempt first = first_attempt(native_rules(), {});
  for (BreakId id : {BreakId::data_dependent, BreakId::torch_error}) {
    Outcome outcome = broke(id);
    outcome.allowed = code(1);
    expect_next(next_attempt(first, outcome), first, Purpose::ReachBreak, Keep::All);
  }
}

/// Every kind of outcome that the policy tells apart.
std::vector<Outcome> all_outcomes(uint64_t fresh) {
  std::vector<Outcome> outcomes{finished(), stopped(false),       stopped(true),
                                raised(),   earlier(fresh, true), earlier(1000 - fresh)};
  for (BreakId id : {BreakId::unknown_call, BreakId::data_dependent, BreakId::torch_error}) {
    outcomes.push_back(broke(id, 900, 1));
    outcomes.push_back(forbidden(id));
    outcomes.push_back(broke(id, 900, 1));
    outcomes.back().allowed = code(fresh);
    outcomes.push_back(outcomes.back());
    outcomes.back().node_failed = true;
  }
  for (End end : {End::Finished, End::Stopped}) {
    Outcome outcome;
    outcome.end = end;
    outcome.verifies_late = true;
    outcomes.push_back(outcome);
    outcome.verifies_late = false;
    outcome.split = PlanEnd{500, BreakId::view_write};
    outcomes.push_back(outcome);
  }
  return outcomes;
}

TEST(NextAttempt, NoSequenceOfOutcomesMakesMoreAttemptsThanTheBound) {
  // All attempts that can be made, one of each kind: their lists of hooks and nodes do not matter here.
  using Key = std::tuple<int, Purpose, uint64_t, bool, bool, bool, bool, int>;
  int longest = 0;
  for (CaptureRules rules : {native_rules(), fullgraph_rules(), CaptureRules{}}) {
    std::set<Key> seen;
    std::vector<Attempt> open{first_attempt(rules, {})};
    while (!open.empty()) {
      Attempt attempt = open.back();
      open.pop_back();
      ASSERT_LE(attempt.number, kMaxAttempts);
      longest = std::max(longest, attempt.number);
      for (const Outcome& outcome : all_outcomes(100 + attempt.number)) {
        Decision decision = next_attempt(attempt, outcome);
        if (!decision.next) continue;
        const Attempt& next = *decision.next;
        ASSERT_EQ(next.number, attempt.number + 1);
        const capture::AttemptOptions& options = next.options;
        Key key{next.number,         next.purpose,           options.stop_before, options.may_assume,
                options.reads_items, next.plan_end.step > 0, next.broke.is_error, next.reaches};
        if (seen.insert(key).second) open.push_back(next);
      }
    }
  }
  // The bound is reached: it is no larger than it has to be.
  EXPECT_EQ(longest, kMaxAttempts);
}

}  // namespace
}  // namespace stator
