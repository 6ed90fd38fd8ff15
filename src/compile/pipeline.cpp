// The whole compile path on one page. See "The path of a call" in docs/architecture.md.
#include "compile/pipeline.h"

#include "compile/build_guards.h"
#include "compile/build_plan.h"
#include "compile/compile_graph.h"
#include "compile/explore.h"
#include "compile/options.h"
#include "compile/oracle.h"
#include "compile/phases.h"

namespace stator {
using namespace capture;

namespace {

/// One capture while it runs: the state around it, what its steps are given, and what they make. Members die in reverse
/// order.
struct Capture {
  Capture(const Start& place, const CompileRequest& request, const std::string& graph_name,
          const KnownBreaks& known_breaks, const std::optional<PlanEnd>& plan_end)
      : start(place), context{start, request, graph_name, state, known_breaks, plan_end} {
    start.hidden = &hidden;
    entry->offset = place.offset;
    entry->cache_key = request.cache_key;
    entry->backend = request.backend;
  }
  Capture(const Capture&) = delete;

  // A finalizer that computes with tensors would be recorded, and the fakes, alive until the end, are no garbage.
  std::optional<NoCollection> no_collection{std::in_place};
  StateKeeper state;
  // The capture calls the program's torch-function modes itself. They must not see what else the capture does.
  WithoutFunctionModes hidden;
  Start start;
  const CaptureContext context;
  const std::shared_ptr<Entry> entry = std::make_shared<Entry>();
  std::optional<observe::Phase> phase;
  std::optional<Exploration> explored;
  Ref exported;  // guard rows for the user's callback
  std::unique_ptr<Plan> plan;
};

/// The four steps. False with a Python error set if one failed. `compared`: for the oracle, which needs no executable.
bool run_steps(Capture& capture, const OracleRecord* compared) {
  const CaptureContext& context = capture.context;
  Entry& entry = *capture.entry;

  capture.phase.emplace(explore_phase);
  capture.explored = explore(context);
  if (!capture.explored) return false;
  Exploration& explored = *capture.explored;
  describe_end(explored, entry);

  capture.phase.emplace(guards_phase);
  if (!build_guards(context, explored, entry, capture.exported)) return false;

  if (explored.has_plan()) {
    capture.phase.emplace(plan_phase);
    capture.plan = build_plan(context, explored, entry);
  }
  if (compared || config().oracle) entry.oracle = oracle_record(entry, capture.plan.get(), explored);
  if (!capture.plan || compared) return true;

  capture.phase.emplace(backend_phase);
  if (!compile_graph(context, explored, capture.exported, entry, *capture.plan, capture.no_collection)) return false;
  entry.plan = std::move(capture.plan);
  return true;
}

std::shared_ptr<Entry> capture_frame(const Start& place, const CompileRequest& request, const std::string& graph_name,
                                     const KnownBreaks& known_breaks, const OracleRecord* compared) {
  LaterError failure;  // declared first: the error is set again when all that the capture holds is gone
  std::optional<PlanEnd> plan_end;
  if (compared && compared->stop_before) plan_end = PlanEnd{compared->stop_before, compared->stop_reason};
  Capture capture(place, request, graph_name, known_breaks, plan_end);
  if (run_steps(capture, compared)) return capture.entry;
  failure.take();
  return nullptr;
}

}  // namespace

std::shared_ptr<Entry> compile_frame(const Start& start, const CompileRequest& request, const std::string& graph_name,
                                     const KnownBreaks& known_breaks) {
  return capture_frame(start, request, graph_name, known_breaks, nullptr);
}

std::shared_ptr<Entry> capture_for_oracle(const Start& start, const CompileRequest& request,
                                          const std::string& graph_name, const OracleRecord& record) {
  return capture_frame(start, request, graph_name, {}, &record);
}

}  // namespace stator
