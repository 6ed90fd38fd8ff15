#include "compile/run_attempt.h"

#include <algorithm>

#include "capture/guards/distinct.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/torch/input_sizes.h"
#include "compile/graph_facts.h"
#include "compile/options.h"
#include "compile/phases.h"
#include "compile/torch_compiler.h"
#include "core/shapes/data_scope.h"

namespace stator {
using namespace capture;

namespace {

/// Whether some frame has a handler for an exception that the current instruction raises.
bool has_handler(const Interpreter& in) {
  for (const Frame* f = in.frames.current(); f; f = f->caller)
    for (const pycompat::ExceptionEntry& entry : f->code->exceptions)
      if (int at = static_cast<int>(f->pc) - 1; entry.start <= at && at < entry.end && is_handler(*f->code, entry))
        return true;
  return false;
}

void record_state(const CaptureContext& context, AttemptResult& result) {
  const GlobalState& before = *context.state.before();
  if (!before.has_same_levels()) throw Break{BreakId::global_state, "a level of a transform stays open"};
  if (!context.state.is_changed()) return;
  if (!before.can_be_restored()) throw Break{BreakId::global_state, ""};
  result.state_at_end = GlobalState::current();
}

void set_break(AttemptResult& result, BreakReason reason, bool raised = false) {
  const EndReport& end = result.interpreter->end;
  reason.stack = end.stack;
  result.outcome.end = End::Broke;
  result.outcome.broke = {reason.id, reason.is_error, raised, end.step, end.outer_step};
  result.outcome.allowed = end.allowed;
  result.outcome.node_failed = end.node_failed;
  result.broke = std::move(reason);
}

/// Interprets, and assembles the plan's steps at the end or at the stop.
void interpret(const CaptureContext& context, AttemptResult& result) {
  Interpreter& in = *result.interpreter;
  auto at_stop = [&] {
    if (uint64_t step = in.frames.resumable_step(); step != in.options.stop_before) throw StopEarlier{step};
    result.outcome.handled = has_handler(in);
    result.assembly = assemble_break(in);
    in.lifetimes.guard_lost(in.frames.current(), nullptr);
    in.guard_aliases();
    find_size_guards(in);
    guard_sizes(in);
    record_state(context, result);
  };
  try {
    Value* returned = in.run(at_stop);
    result.assembly = assemble(in, returned);
    in.lifetimes.guard_lost(nullptr, returned);
    in.guard_aliases();
    find_size_guards(in);
    guard_sizes(in);
    record_state(context, result);
  } catch (const Stopped&) {
    result.outcome.end = End::Stopped;
  } catch (const StopEarlier& earlier) {
    set_break(result, {earlier.id, earlier.why});
    result.outcome.earlier_step = earlier.step;
    result.outcome.earlier_is_hook = earlier.step && earlier.id == BreakId::mutation;
  } catch (const Break& broke) {
    set_break(result, {broke.id, broke.detail, {}, in.end.is_error});
    find_size_guards(in);
  } catch (const Raise& raised) {
    set_break(result, {BreakId::raises, exception_text(in, raised.exception)}, true);
    find_size_guards(in);
  } catch (const std::exception& error) {
    set_break(result, {BreakId::internal, error.what()});
  }
}

/// An input, used by the graph or not, that is a view and lies in the storage of this tensor; null: there is none.
const TensorValue* find_view_of(const Interpreter& in, PyObject* tensor) {
  const MemoryRange range = memory_of(tensor);
  auto found = std::find_if(in.torch.inputs.begin(), in.torch.inputs.end(), [&](const TensorValue* input) {
    PyObject* other = input->real.get();
    return TorchTracer::is_tensor(other) && is_view_tensor(other) && memory_of(other).begin == range.begin;
  });
  return found == in.torch.inputs.end() ? nullptr : *found;
}

/// Guards that the one input is a view, and lies where it does in the storage of the other.
void guard_view_of(Interpreter& in, const TensorValue* view, const TensorValue* written) {
  in.guards.add_at_end(view->source, FactKind::View, 1);
  if (view == written) return;
  PyObject* const objects[] = {written->real.get(), view->real.get()};
  Fact fact{FactKind::Memory, memory_layout(objects, 1), Ref(), 1};
  fact.group = std::make_shared<const std::vector<Source*>>(std::vector<Source*>{written->source, view->source});
  in.guards.add_at_end(written->source, std::move(fact));
}

/// Where the plan has to end although nothing breaks there. `hazard`: of the backend that will run the graph.
std::optional<PlanEnd> find_split(const AttemptResult& result, const std::vector<uint32_t>& order,
                                  const Hazard& hazard) {
  Interpreter& in = *result.interpreter;
  auto step_of = [&](uint32_t node) { return in.torch.step_of_node(node < order.size() ? order[node] : node); };
  // No fake shows what the write does to the view's base, and so to the autograd history of both.
  for (const FollowedWrite& write : followed_writes(*result.graph)) {
    const TensorValue* written = in.torch.inputs[result.kept_inputs[write.input]];
    if (const TensorValue* view = find_view_of(in, written->real.get())) {
      guard_view_of(in, view, written);
      return PlanEnd{step_of(write.node), BreakId::view_write};
    }
  }
  // If an operator raises, the program itself runs, which needs all earlier writes undone. So the plan ends before an
  // operator that may raise after an unrecoverable write.
  if (hazard.node >= op_count(*result.graph)) return {};
  bool is_own = hazard.effect == hazard.node;
  uint64_t step = step_of(hazard.node);
  if (step == 0 || (!is_own && step <= step_of(hazard.effect))) return {};
  return PlanEnd{step, is_own ? BreakId::unrecoverable_write : BreakId::split_before_fallible_op};
}

/// What the graph may have. The settings are about Python backends.
shapes::DataUses uses_of_data(const CompileRequest& request) {
  if (!request.compiler || request.fullgraph) return {};
  return {.sizes = config().capture_dynamic_output_shape_ops, .numbers = config().capture_scalar_outputs};
}

/// Tells the policy what the graph would do in a run. Moves its checks of data before its writes, where it may fail.
void examine_graph(const Attempt& attempt, AttemptResult& result) {
  const Interpreter& in = *result.interpreter;
  const bool is_python = in.options.for_python_backend;
  const RunFacts run =
      is_python ? examine_python_run(*result.graph) : examine_run(*result.graph, attempt.options.may_assume);
  result.is_checked_early = run.is_checked_early;
  // Compilers of Python backends may compute something else where Python raises.
  const bool is_unchecked = in.torch.has_unsure_numbers && !run.is_checked_early;
  const bool verifies_late = is_python ? run.verifies_unordered || is_unchecked : run.verifies_late;
  result.outcome.verifies_late = attempt.options.may_assume && verifies_late;
  // The graph of a Python backend is split only where the program has a handler: else an error ends the program's call,
  // whichever effects it had.
  const bool may_split = attempt.rules.may_split && (!is_python || in.frames.has_seen_handlers());
  if (may_split && attempt.plan_end.step == 0 && !result.outcome.verifies_late)
    result.outcome.split = find_split(result, run.order, is_python ? run.unordered_hazard : run.hazard);
}

}  // namespace

AttemptResult run_attempt(const CaptureContext& context, const Attempt& attempt) {
  observe::Phase whole(attempt_phase, static_cast<uint32_t>(attempt.number));
  std::optional<observe::Phase> phase(std::in_place, interpret_phase);
  AttemptResult result;
  AttemptOptions options = attempt.options;
  options.for_python_backend = static_cast<bool>(context.request.compiler);
  const shapes::DataScope uses(uses_of_data(context.request));
  options.for_compiled_autograd = config().compiled_autograd;
  result.interpreter = std::make_unique<Interpreter>(context.start, context.graph_name, options);
  Interpreter& in = *result.interpreter;
  ClassLookups::Scope recorded(in.guards.lookups());
  if (config().aten_graphs) in.torch.tracer.record_below();
  interpret(context, result);
  phase.emplace(finish_phase);
  LaterError interrupted;  // by a signal handler: nothing below is to run with the error set
  interrupted.take();
  try {
    if (!result.broke) result.graph = in.torch.tracer.finish(result.assembly.outputs, result.kept_inputs);
  } catch (const std::exception& error) {
    set_break(result, {BreakId::internal, error.what()});
  }
  context.state.before()->restore();
  if (result.graph) examine_graph(attempt, result);
  in.allow_signals();
  return result;
}

}  // namespace stator
