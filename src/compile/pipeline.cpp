// The whole compile path on one page.
#include "compile/pipeline.h"

#include "capture/call/runners.h"
#include "capture/guards/global_state.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/assemble.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/interpreter.h"
#include "compile/graph_facts.h"
#include "compile/options.h"
#include "core/base/check.h"
#include "core/observe/counters.h"
#include "core/observe/phases.h"

namespace stator {
using namespace capture;

static BackendCall backend_call = nullptr;
void set_backend_call(BackendCall call) { backend_call = call; }

Config& config() {
  static Config settings;
  return settings;
}

/// Grad mode, autocast and dispatcher keys are as before, whatever the captured program switched.
class StateKeeper {
 public:
  StateKeeper() : before_(GlobalState::current()) {}
  ~StateKeeper() { before_->restore(); }
  std::shared_ptr<const GlobalState> before() const { return before_; }
  bool is_changed() const { return !before_->matches(); }

 private:
  std::shared_ptr<const GlobalState> before_;
};

static void number_slots(Assembly& assembly) {
  for (Step& step : assembly.steps)
    if (step.kind == StepKind::Slot) step.a = assembly.slots[step.a]->slot;
}

std::shared_ptr<Entry> compile_frame(PyObject* function, PyObject* const* arguments, const CompileRequest& request,
                                     const std::string& graph_name) {
  auto entry = std::make_shared<Entry>();
  entry->cache_key = request.cache_key;
  entry->backend = request.backend;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  observe::Stopwatch watch;
  StateKeeper state;
  Interpreter interpreter(function, code, arguments, graph_name);
  if (config().aten_graphs) interpreter.torch.record_below();
  auto plan = std::make_unique<Plan>();
  Assembly assembly;
  std::shared_ptr<graph::Graph> graph;
  std::vector<uint32_t> kept;

  try {
    Value* result = interpreter.run();
    if (state.is_changed()) throw Break{BreakId::global_state, ""};
    assembly = assemble(interpreter, result);
    graph = interpreter.torch.finish(assembly.outputs, kept);
  } catch (const Break& broke) {
    entry->broke = BreakReason{broke.id, broke.detail, interpreter.end_stack};
  } catch (const Raise& raised) {
    entry->broke = BreakReason{BreakId::raises, exception_text(interpreter, raised.exception), interpreter.end_stack};
  } catch (const std::exception& error) {
    entry->broke = BreakReason{BreakId::internal, error.what(), interpreter.end_stack};
  }
  // Only a signal handler's exception is left set: it is the user's.
  if (PyErr_Occurred() || PyErr_CheckSignals() < 0) return nullptr;
  entry->phases.interpret = watch.lap();

  std::vector<PyObject*> example_inputs;
  std::vector<Source*> input_sources;
  for (uint32_t input : kept) {
    input_sources.push_back(interpreter.inputs[input]->source);
    example_inputs.push_back(interpreter.inputs[input]->real.get());
  }
  entry->guards = std::make_unique<CheckArray>(interpreter.take_sources(), state.before());
  entry->phases.guards = watch.lap();
  if (entry->broke) return entry;

  for (Source* source : input_sources) plan->inputs.push_back(source->slot);
  number_slots(assembly);
  plan->steps = std::move(assembly.steps);
  plan->result = assembly.result;
  plan->prepare();
  entry->ops = op_count(*graph);
  if (entry->ops > 0) {
    entry->graph = graph;
    plan->graph = request.compiler ? backend_call(graph, example_inputs, request) : make_native_runner(graph);
    if (!plan->graph) return nullptr;
  }
  drop_fakes(*graph);
  entry->plan = std::move(plan);
  entry->phases.backend = watch.lap();
  return entry;
}

}  // namespace stator
