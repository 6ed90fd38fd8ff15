// The whole compile path on one page. See "The path of a call" in docs/architecture.md.
#include "compile/pipeline.h"

#include "compile/build_guards.h"
#include "compile/build_plan.h"
#include "compile/capture_report.h"
#include "compile/compile_graph.h"
#include "compile/explore.h"
#include "compile/options.h"
#include "compile/oracle.h"
#include "compile/phases.h"

namespace stator {
using namespace capture;

static std::shared_ptr<Entry> capture_frame(const Start& place, const CompileRequest& request,
                                            const std::string& graph_name, const KnownBreaks& known_breaks,
                                            const OracleRecord* compared) {
  LaterError failure;  // declared first: the error is set again when all that the capture holds is gone
  auto fail = [&]() -> std::shared_ptr<Entry> {
    failure.take();
    return nullptr;
  };
  // A finalizer that computes with tensors would be recorded, and the fakes, alive until the end, are no garbage.
  std::optional<NoCollection> no_collection(std::in_place);
  StateKeeper state;
  // The capture calls the program's torch-function modes itself. They must not see what else the capture does.
  WithoutFunctionModes hidden;
  Start start = place;
  start.hidden = &hidden;
  std::optional<PlanEnd> plan_end;
  if (compared && compared->stop_before) plan_end = PlanEnd{compared->stop_before, compared->stop_reason};
  CaptureContext context{start, request, graph_name, state, known_breaks, plan_end};
  auto entry = std::make_shared<Entry>();
  entry->offset = place.offset;
  entry->cache_key = request.cache_key;
  entry->backend = request.backend;
  std::optional<observe::Phase> phase(std::in_place, explore_phase);

  std::optional<Exploration> explored = explore(context);
  if (!explored) return fail();
  if (request.compiler) give_size_inputs(explored->result);
  entry->broke = explored->broke;
  entry->raises = explored->raises;
  entry->runs_plain = explored->runs_plain || (entry->broke && entry->broke->id == BreakId::skip_rest);
  for (const Interpreter* attempt : {explored->result.interpreter.get(), explored->met_break.get()})
    if (attempt) entry->asked.insert(entry->asked.end(), attempt->marks.asked().begin(), attempt->marks.asked().end());

  entry->specialised = explored->result.interpreter->torch.tracer.specialised();
  entry->marked = explored->result.interpreter->torch.marked;
  note_exploration(*explored);

  phase.emplace(guards_phase);
  Ref exported;
  if (!build_guards(context, *explored, *entry, exported)) return fail();
  auto record = [&](const Plan* plan) {
    if (!compared && !config().oracle) return;
    entry->oracle = oracle_record(*entry, plan, explored->result.graph.get());
    if (entry->guards_break) return;
    entry->oracle->stop_before = explored->result.interpreter->options.stop_before;
    entry->oracle->stop_reason = entry->broke->id;
  };
  if (!explored->has_plan()) {
    record(nullptr);
    return entry;
  }

  phase.emplace(plan_phase);
  const bool hides_modes = !hidden.modes().empty() || hidden.state() != Overriding::Enabled;
  std::unique_ptr<Plan> plan = build_plan(*explored, *entry, hides_modes);
  record(plan.get());
  if (compared) return entry;
  phase.emplace(backend_phase);
  if (!compile_graph(context, *explored, exported, *entry, *plan, no_collection)) return fail();
  entry->plan = std::move(plan);
  return entry;
}

std::shared_ptr<Entry> compile_frame(const Start& start, const CompileRequest& request, const std::string& graph_name,
                                     const KnownBreaks& known_breaks) {
  return capture_frame(start, request, graph_name, known_breaks, nullptr);
}

std::shared_ptr<Entry> capture_for_oracle(const Start& start, const CompileRequest& request,
                                          const std::string& graph_name, const OracleRecord& record) {
  return capture_frame(start, request, graph_name, {}, &record);
}

}  // namespace stator
