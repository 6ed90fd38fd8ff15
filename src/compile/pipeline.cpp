// The whole compile path on one page. See "The path of a call" in docs/architecture.md.
#include "compile/pipeline.h"

#include "compile/build_guards.h"
#include "compile/build_plan.h"
#include "compile/compile_graph.h"
#include "compile/explore.h"
#include "compile/options.h"
#include "compile/oracle.h"
#include "core/observe/phases.h"

namespace stator {
using namespace capture;

static std::shared_ptr<Entry> capture_frame(const Start& place, const CompileRequest& request,
                                            const std::string& graph_name, bool for_oracle) {
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
  CaptureContext context{start, request, graph_name, state};
  auto entry = std::make_shared<Entry>();
  entry->offset = place.offset;
  entry->cache_key = request.cache_key;
  entry->backend = request.backend;
  observe::Stopwatch watch;

  std::optional<Exploration> explored = explore(context);
  if (!explored) return fail();
  entry->broke = explored->broke;
  entry->raises = explored->raises;
  entry->runs_plain = explored->runs_plain || (entry->broke && entry->broke->id == BreakId::skip_rest);
  entry->phases.interpret = watch.lap();
  const auto& asked = explored->result.interpreter->marks.asked();
  entry->asked.assign(asked.begin(), asked.end());

  Ref exported;
  if (!build_guards(context, *explored, *entry, exported)) return fail();
  entry->phases.guards = watch.lap();
  const bool has_oracle = for_oracle || config().oracle;
  if (!explored->has_plan()) {
    if (has_oracle) entry->oracle = oracle_record(*entry, nullptr, nullptr);
    return entry;
  }

  const bool hides_modes = !hidden.modes().empty() || hidden.state() != Overriding::Enabled;
  std::unique_ptr<Plan> plan = build_plan(*explored, *entry, hides_modes);
  if (has_oracle) entry->oracle = oracle_record(*entry, plan.get(), explored->result.graph.get());
  if (for_oracle) return entry;
  if (!compile_graph(context, *explored, exported, *entry, *plan, no_collection)) return fail();
  entry->plan = std::move(plan);
  entry->phases.backend = watch.lap();
  return entry;
}

std::shared_ptr<Entry> compile_frame(const Start& start, const CompileRequest& request, const std::string& graph_name) {
  return capture_frame(start, request, graph_name, false);
}

std::shared_ptr<Entry> capture_for_oracle(const Start& start, const CompileRequest& request,
                                          const std::string& graph_name) {
  return capture_frame(start, request, graph_name, true);
}

}  // namespace stator
