#include "compile/explore.h"

#include <algorithm>

#include "compile/capture_report.h"
#include "compile/compile_graph.h"
#include "compile/options.h"
#include "compile/reports.h"
#include "core/base/check.h"
#include "core/observe/clock.h"
#include "core/observe/counters.h"
#include "core/observe/record.h"

namespace stator {
using namespace capture;

namespace {

CaptureRules rules_of(const CompileRequest& request) { return {request.fullgraph, !request.fullgraph}; }

/// Where `config.break_after` ends the plan.
PlanEnd plan_end_of(const Start& start) {
  int64_t instructions = config().break_after;
  if (instructions == 0) return {};
  // The first instruction of a frame is captured in any case: there is no real frame yet to execute it in.
  if (start.offset == 0) instructions = std::max<int64_t>(instructions, 1);
  return {static_cast<uint64_t>(std::max<int64_t>(instructions, 0)) + 1, BreakId::break_after};
}

/// Whether `captures.restarts` counts the attempt: it repeats an earlier one to avoid a break, or to stop before it.
bool is_restart(Purpose purpose) {
  return purpose == Purpose::HookOnCopy || purpose == Purpose::CallByNode || purpose == Purpose::ReachBreak;
}

const char* purpose_text(Purpose purpose) {
  switch (purpose) {
    case Purpose::First:
      return "first";
    case Purpose::HookOnCopy:
      return "a hook is registered on a tensor that is written later";
    case Purpose::CallByNode:
      return "a function allowed in graphs is called by a node";
    case Purpose::ReachBreak:
      return "the plan stops before the break";
    case Purpose::NoAssumptions:
      return "an assumption would be verified too late";
    case Purpose::ReadItems:
      return "integers in input tensors are read";
    case Purpose::Split:
      return "the plan ends before an operator that cannot be undone";
  }
  return "?";
}

void keep(Exploration& so_far, AttemptResult result, const Attempt& attempt, const Decision& decision,
          std::unique_ptr<Interpreter>& was_split) {
  if (decision.next && decision.next->purpose == Purpose::Split) was_split = std::move(result.interpreter);
  if (decision.keep == Decision::Keep::Nothing) return;
  if (decision.keep == Decision::Keep::All) {
    so_far.met_break.reset();
    so_far.broke = result.broke;
    if (result.outcome.end == End::Stopped) {
      so_far.broke = BreakReason{attempt.plan_end.why, "", result.interpreter->end.stack};
      so_far.met_break = std::move(was_split);
      // Whether autograd follows a write may only be known when the frame ends.
      so_far.break_step = attempt.plan_end.why == BreakId::view_write ? UINT64_MAX : attempt.plan_end.step;
    }
  } else {
    so_far.met_break = std::move(so_far.result.interpreter);
    so_far.break_step = UINT64_MAX;
    so_far.broke->is_error = false;  // the program's own exception is not an error of the capture
  }
  so_far.result = std::move(result);
}

/// Notes an attempt in the record of the compilation, if there is one.
void note_attempt(const AttemptResult& result, const Decision& decision, int64_t nanoseconds) {
  observe::CompilationRecord* record = observe::open_record();
  if (!record) return;
  ++record->attempts;
  record->instructions += static_cast<int64_t>(*result.interpreter->frames.steps());
  if (!decision.next) return;
  record->before_restart_ns += nanoseconds;
  record->restart_reasons.insert(result.broke ? break_cause(*result.broke) : purpose_text(decision.next->purpose));
}

}  // namespace

std::optional<Exploration> explore(const CaptureContext& context) {
  LaterError interrupted;  // set again when the attempts are gone
  Exploration so_far;
  std::unique_ptr<Interpreter> was_split;  // the attempt whose graph is split; null: none
  Attempt attempt = first_attempt(rules_of(context.request), context.plan_end.value_or(plan_end_of(context.start)));
  while (true) {
    STATOR_CHECK(attempt.number <= kMaxAttempts);
    if (is_restart(attempt.purpose)) observe::count("captures.restarts");
    const int64_t began = observe::now_ns();
    AttemptResult result = run_attempt(context, attempt);
    if (PyErr_Occurred() || PyErr_CheckSignals() < 0) {
      interrupted.take();
      return {};
    }
    Decision decision = next_attempt(attempt, result.outcome);
    note_attempt(result, decision, observe::now_ns() - began);
    keep(so_far, std::move(result), attempt, decision, was_split);
    if (!decision.next) {
      so_far.runs_plain = decision.runs_plain;
      so_far.raises = decision.raises;
      if (context.request.compiler) give_size_inputs(so_far.result);
      return so_far;
    }
    attempt = *std::move(decision.next);
  }
}

void describe_end(const Exploration& explored, Entry& entry) {
  entry.broke = explored.broke;
  entry.raises = explored.raises;
  entry.runs_plain = explored.runs_plain || (entry.broke && entry.broke->id == BreakId::skip_rest);
  for (const Interpreter* attempt : {explored.result.interpreter.get(), explored.met_break.get()})
    if (attempt) entry.asked.insert(entry.asked.end(), attempt->marks.asked().begin(), attempt->marks.asked().end());
  TorchSession& torch = explored.result.interpreter->torch;
  entry.specialised = torch.tracer.specialised();
  entry.marked = torch.marked;
  note_exploration(explored);
}

}  // namespace stator
