// The whole compile path on one page.
#include "compile/pipeline.h"

#include <algorithm>

#include "capture/call/runners.h"
#include "capture/guards/global_state.h"
#include "capture/guards/literals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/interpreter.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/opcodes/assumptions.h"
#include "capture/interpreter/plan/assemble.h"
#include "capture/pycompat/evaluation.h"
#include "compile/graph_facts.h"
#include "compile/options.h"
#include "core/base/check.h"
#include "core/observe/counters.h"
#include "core/observe/phases.h"

namespace stator {
using namespace capture;

static BackendCall backend_call = nullptr;
void set_backend_call(BackendCall call) { backend_call = call; }

/// Grad mode, autocast and dispatcher keys are as before, whatever the captured program switched.
class StateKeeper {
 public:
  StateKeeper() : before_(GlobalState::current()) {}
  ~StateKeeper() { before_->restore(); }
  std::shared_ptr<const GlobalState> before() const { return before_; }
  bool is_changed() const { return !before_->matches_but_modes(); }

 private:
  std::shared_ptr<const GlobalState> before_;
};

namespace {

void number_slots(Assembly& assembly) {
  for (Step& step : assembly.steps)
    if (step.kind == StepKind::Slot) step.a = assembly.slots[step.a]->slot;
}

/// One walk over the bytecode: to the frame's end, or to the instruction it was told to stop before.
struct Walk {
  std::unique_ptr<Interpreter> interpreter;
  Assembly assembly;
  std::shared_ptr<graph::Graph> graph;
  std::vector<uint32_t> kept;  // graph inputs that are used
  std::shared_ptr<const GlobalState> state_at_end;
  std::optional<BreakReason> broke;
  std::vector<uint32_t> order;  // the place in the program of each node of the graph; empty: that of the graph
  bool stopped = false;
  bool raised = false;         // an exception of the program's left the frame
  bool handled = false;        // where it stopped, some frame has a handler for exceptions
  uint64_t retry = 0;          // a step to stop before instead
  uint64_t hooked_before = 0;  // the step that gave a hook to a tensor which was written later
};

/// Whether the program may go on after an exception that the instruction at hand raises. A `with` passes it on, as a
/// rule.
bool has_handler(const Interpreter& in) {
  auto is_with = [](const pycompat::Code& code, int target) {
    return std::any_of(code.instrs.begin() + target, std::min(code.instrs.begin() + target + 2, code.instrs.end()),
                       [](const pycompat::Instr& instr) { return instr.op == pycompat::Op::WITH_EXCEPT_START; });
  };
  for (const Frame* f = in.frame; f; f = f->caller)
    for (const pycompat::ExceptionEntry& entry : f->code->exceptions)
      if (int at = static_cast<int>(f->pc) - 1; entry.start <= at && at < entry.end && !is_with(*f->code, entry.target))
        return true;
  return false;
}

Walk walk(const Start& start, const std::string& graph_name, const StateKeeper& state, uint64_t stop_before,
          const Interpreter::Manner& manner) {
  Walk w;
  NoSignals waiting;
  w.interpreter = std::make_unique<Interpreter>(start, graph_name);
  Interpreter& in = *w.interpreter;
  in.signals = &waiting;
  in.manner = manner;
  if (config().aten_graphs) in.torch.record_below();
  in.stop_before = stop_before;
  auto note_state = [&] {
    if (!state.before()->has_same_levels()) throw Break{BreakId::global_state, "a level of a transform stays open"};
    if (!state.is_changed()) return;
    if (!state.before()->can_be_restored()) throw Break{BreakId::global_state, ""};
    w.state_at_end = GlobalState::current();
  };
  in.at_stop = [&] {
    if (uint64_t step = in.resumable_step(); step != stop_before) throw StopEarlier{step};
    w.handled = has_handler(in);
    w.assembly = assemble_break(in);
    in.guard_distinct();
    note_state();
  };
  try {
    Value* result = in.run();
    w.assembly = assemble(in, result);
    in.guard_distinct();
    note_state();
  } catch (const Stopped&) {
    w.stopped = true;
  } catch (const StopEarlier& earlier) {
    w.retry = earlier.step;
    if (earlier.id == BreakId::mutation) w.hooked_before = earlier.step;
    w.broke = BreakReason{earlier.id, earlier.why, in.end_stack};
  } catch (const Break& broke) {
    w.broke = BreakReason{broke.id, broke.detail, in.end_stack, in.end_is_error};
  } catch (const Raise& raised) {
    w.broke = BreakReason{BreakId::raises, exception_text(in, raised.exception), in.end_stack};
    w.raised = true;
  } catch (const std::exception& error) {
    w.broke = BreakReason{BreakId::internal, error.what(), in.end_stack};
  }
  LaterError interrupted;
  interrupted.take();
  try {
    if (!w.broke) w.graph = in.torch.finish(w.assembly.outputs, w.kept);
  } catch (const std::exception& error) {
    w.broke = BreakReason{BreakId::internal, error.what(), in.end_stack};
    w.stopped = false;
  }
  state.before()->restore();
  return w;
}

constexpr int kMaxRestarts = 3;

/// The walk to just before the break that ended `first`; its `broke` is set when there is no way to stop there.
Walk walk_to_break(const Start& start, const std::string& graph_name, const StateKeeper& state, const Walk& first,
                   const Interpreter::Manner& manner) {
  uint64_t stop = first.retry ? first.retry : first.interpreter->end_step, outer = first.interpreter->outer_step;
  Walk w;
  for (int restarts = 0; restarts < kMaxRestarts && stop > 0; ++restarts) {
    observe::count("captures.restarts");
    w = walk(start, graph_name, state, stop, manner);
    if (w.stopped || PyErr_Occurred()) return w;
    // An exception that is alive is raised again for real; what cannot be rebuilt in an inlined frame need not be when
    // the break moves out to the call.
    uint64_t next = w.retry ? w.retry : outer;
    if (next >= stop) break;
    stop = next;
  }
  if (!w.broke) w.broke = BreakReason{BreakId::internal, "the second walk took another way", {}};
  return w;
}

/// Where a plan has to end although nothing breaks there.
struct Cut {
  uint64_t step;
  BreakId why;
};

std::optional<Cut> needed_cut(const Walk& w) {
  Interpreter& in = *w.interpreter;
  auto step_of = [&](uint32_t node) {
    return in.step_of_node(w.order.empty() || node >= w.order.size() ? node : w.order[node]);
  };
  // What the write makes of the view's base, and so what autograd says of either, no fake tells.
  for (const FollowedWrite& write : followed_writes(*w.graph))
    if (is_view_tensor(in.inputs[w.kept[write.input]]->real.get()))
      return Cut{step_of(write.node), BreakId::view_write};
  // An operator that raises must find the world as the program would: what cannot be taken back ends the plan before
  // it.
  Hazard hazard = hazard_of(*w.graph);
  if (hazard.node >= op_count(*w.graph)) return {};
  bool is_own = hazard.effect == hazard.node;
  uint64_t before = step_of(hazard.node);
  if (before == 0 || (!is_own && before <= step_of(hazard.effect))) return {};
  return Cut{before, is_own ? BreakId::way_back : BreakId::way_back_cut};
}

}  // namespace

std::shared_ptr<Entry> compile_frame(const Start& place, const CompileRequest& request, const std::string& graph_name) {
  LaterError interrupted;  // by a signal handler; comes after all that the capture holds is gone
  auto entry = std::make_shared<Entry>();
  entry->offset = place.offset;
  entry->cache_key = request.cache_key;
  entry->backend = request.backend;
  // A finalizer that computes with tensors would be recorded; and the fakes, all alive until the end, are no garbage.
  std::optional<NoCollection> quiet(std::in_place);
  observe::Stopwatch watch;
  StateKeeper state;
  // Modes are the program's: the capture asks them itself, and nothing else that it does is to be seen by them.
  WithoutFunctionModes hidden;
  Start start = place;
  start.hidden = &hidden;

  // The first instruction of a frame is captured in any case: there is no frame yet to do it in.
  int64_t fuel = std::max<int64_t>(config().break_after, start.offset == 0 && config().break_after < 0 ? 1 : -1);
  uint64_t stop = fuel ? static_cast<uint64_t>(std::max<int64_t>(fuel, 0)) + 1 : 0;
  BreakId why_stopped = BreakId::fuel;
  Interpreter::Manner manner;
  Walk w;
  auto attempt = [&](bool assuming) {
    AssumptionScope scope(assuming);
    w = walk(start, graph_name, state, stop, manner);
    auto& copied = manner.hooks_of_copies;
    while (w.hooked_before && std::find(copied.begin(), copied.end(), w.hooked_before) == copied.end()) {
      observe::count("captures.restarts");
      copied.push_back(w.hooked_before);
      w = walk(start, graph_name, state, stop, manner);
    }
    // A function that its author allowed in graphs, and that is not understood, may still be a node: unless it is the
    // data that it asks for, or an operator that fails, which a fake would not answer either.
    auto may_be_node = [&] {
      return w.broke && w.interpreter->end_allowed && w.broke->id != BreakId::data_dependent &&
             w.broke->id != BreakId::torch_error;
    };
    while (may_be_node()) {
      observe::count("captures.restarts");
      manner.as_nodes.push_back(w.interpreter->end_allowed);
      Walk again = walk(start, graph_name, state, stop, manner);
      if (again.broke && again.interpreter->node_failed) {
        manner.as_nodes.pop_back();
        break;
      }
      w = std::move(again);
    }
    entry->broke = w.broke;
    if (w.stopped) entry->broke = BreakReason{why_stopped, "", w.interpreter->end_stack};
    // Only a signal handler's exception is left set: it is the user's.
    if (PyErr_Occurred() || PyErr_CheckSignals() < 0) return false;
    entry->raises = w.raised;
    if (!w.broke) return true;
    const bool is_strict = request.fullgraph || w.broke->is_error;
    const bool may_raise = w.broke->id == BreakId::raises || w.broke->id == BreakId::torch_error;
    if ((is_strict && !may_raise) || (request.fullgraph && w.raised)) return true;
    Walk second = walk_to_break(start, graph_name, state, w, manner);
    if (PyErr_Occurred() || PyErr_CheckSignals() < 0) return false;
    if (is_strict) {
      // What the program raises is its own affair, unless it may handle it: then there is more to come.
      entry->raises = second.stopped && !second.handled;
      if (request.fullgraph || !entry->raises) return true;
      entry->broke->is_error = false;
    }
    entry->runs_plain = !second.stopped;
    if (second.stopped) w = std::move(second);
    return true;
  };
  auto attempt_early = [&](bool assuming) {
    if (!attempt(assuming)) return false;
    if (assuming && w.graph) w.order = check_early(*w.graph);
    return true;
  };
  // Where an assumption fails the program itself runs; a backend of the user's cannot take back what its graph did.
  bool assuming = !request.compiler;
  auto attempts = [&] {
    if (!attempt_early(assuming)) return false;
    if (assuming && w.graph && fails_after_writing(*w.graph) && !attempt(false)) return false;
    if (request.fullgraph) {
      // Rather than give up: an integer that came in a tensor is guarded.
      manner.reads_items = w.broke && w.broke->id == BreakId::data_dependent;
      return !manner.reads_items || attempt_early(assuming);
    }
    if (request.compiler || config().break_after || !w.graph) return true;
    auto cut = needed_cut(w);
    if (!cut) return true;
    stop = cut->step;
    why_stopped = cut->why;
    return attempt_early(assuming);
  };
  if (!attempts()) {
    interrupted.take();
    return nullptr;
  }
  entry->phases.interpret = watch.lap();

  Interpreter& interpreter = *w.interpreter;
  std::vector<PyObject*> example_inputs;
  std::vector<Source*> input_sources;
  std::vector<size_t> array_inputs;
  for (uint32_t input : w.kept) {
    if (interpreter.inputs[input]->layout) array_inputs.push_back(input_sources.size());
    input_sources.push_back(interpreter.inputs[input]->source);
    example_inputs.push_back(interpreter.inputs[input]->real.get());
  }
  if (w.graph)
    for (const FollowedWrite& write : followed_writes(*w.graph)) {
      TensorValue* input = interpreter.inputs[w.kept[write.input]];
      interpreter.guard_at_end(input->source, FactKind::View, is_view_tensor(input->real.get()));
    }
  entry->bound = interpreter.bound_places();
  std::unique_ptr<SourceTree> sources = interpreter.take_sources();
  if (request.guards && !request.guards->apply_filter(*sources)) return nullptr;
  Ref exported;
  if (request.guards && request.guards->exported && !(exported = GuardCallbacks::rows_of(*sources))) return nullptr;
  entry->guards = std::make_unique<CheckArray>(std::move(sources), state.before());
  entry->phases.guards = watch.lap();
  if (w.broke || (w.stopped && interpreter.stop_before == 1)) return entry;

  auto plan = std::make_unique<Plan>();
  for (Source* source : input_sources) plan->inputs.push_back(source->slot);
  plan->array_inputs = std::move(array_inputs);
  std::vector<Ref> plain_inputs;
  for (PyObject*& input : example_inputs) {
    if (!TorchTracer::is_tensor(input) || TorchTracer::is_plain_class(Py_TYPE(input))) continue;
    plan->has_subclasses = true;
    // What a backend tries on its examples is not for their class to see.
    auto* plain = reinterpret_cast<PyObject*>(TorchTracer::tensor_type());
    PyObject* as_subclass = known_object("torch._C.TensorBase.as_subclass");
    plain_inputs.push_back(Ref::steal(PyObject_CallFunctionObjArgs(as_subclass, input, plain, nullptr)));
    if (!plain_inputs.back()) return nullptr;
    input = plain_inputs.back().get();
  }
  plan->from_array = Ref::borrow(known_object("torch.from_numpy"));
  number_slots(w.assembly);
  plan->steps = std::move(w.assembly.steps);
  plan->result = w.assembly.result;
  plan->frames = std::move(w.assembly.frames);
  plan->state_at_end = w.state_at_end;
  plan->hides_modes = !hidden.modes().empty() || hidden.state() != Overriding::Enabled;
  plan->modes_at_end = std::move(w.assembly.modes_at_end);
  plan->is_cut = entry->broke && (entry->broke->id == BreakId::fuel || entry->broke->id == BreakId::way_back_cut);
  plan->prepare();
  plan->lend_to(*entry->guards);
  entry->ops = op_count(*w.graph);
  if (entry->ops > 0) {
    entry->graph = w.graph;
    if (request.compiler) quiet.reset();
    plan->graph = request.compiler ? backend_call(w.graph, example_inputs, request) : make_native_runner(w.graph);
    if (!plan->graph) return nullptr;
    plan->graph->refuses_warnings = w.interpreter->torch.recorded_silently;
    if (exported && !Ref::steal(PyObject_CallOneArg(request.guards->exported.get(), exported.get()))) return nullptr;
  }
  drop_fakes(*w.graph);
  entry->plan = std::move(plan);
  entry->phases.backend = watch.lap();
  return entry;
}

}  // namespace stator
