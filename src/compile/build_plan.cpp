#include "compile/build_plan.h"

#include <algorithm>

#include "capture/interpreter/state/known_types.h"

namespace stator {
using namespace capture;

namespace {

bool is_subclass_tensor(PyObject* input) {
  return TorchTracer::is_tensor(input) && !TorchTracer::is_plain_class(Py_TYPE(input));
}

void add_inputs(Plan& plan, const AttemptResult& result) {
  for (const SizeInput& size : result.size_inputs)
    plan.size_inputs.push_back({result.interpreter->torch.inputs[size.tensor]->source->slot, size.dim});
  for (uint32_t index : result.kept_inputs) {
    const TensorValue* input = result.interpreter->torch.inputs[index];
    if (is_number_input(*input)) plan.number_inputs.push_back(plan.inputs.size());
    if (input->layout) plan.array_inputs.push_back(plan.inputs.size());
    plan.inputs.push_back(input->source->slot);
    plan.has_subclasses = plan.has_subclasses || is_subclass_tensor(input->real.get());
  }
  plan.from_array = Ref::borrow(known_object("torch.from_numpy"));
}

/// Steps that read a slot hold its source so far. Replaces that by the slot's number in the check array.
void number_slots(Assembly& assembly) {
  for (Step& step : assembly.steps)
    if (step.kind == StepKind::Slot) step.a = assembly.slots[step.a]->slot;
}

}  // namespace

std::unique_ptr<Plan> build_plan(const CaptureContext& context, Exploration& explored, const Entry& entry) {
  auto plan = std::make_unique<Plan>();
  add_inputs(*plan, explored.result);
  plan->numbers_as_tensors = explored.result.interpreter->options.for_python_backend;
  Assembly& assembly = explored.result.assembly;
  number_slots(assembly);
  plan->steps = std::move(assembly.steps);
  plan->result = assembly.result;
  plan->frames = std::move(assembly.frames);
  plan->modes_at_end = std::move(assembly.modes_at_end);
  plan->state_at_end = explored.result.state_at_end;
  const WithoutFunctionModes& hidden = *context.start.hidden;
  plan->hides_modes = !hidden.modes().empty() || hidden.state() != Overriding::Enabled;
  const std::optional<BreakReason>& broke = explored.broke;
  plan->is_cut = broke && (broke->id == BreakId::break_after || broke->id == BreakId::split_before_fallible_op);
  plan->skips_rest = broke && broke->id == BreakId::skip_rest;
  plan->prepare();
  plan->disown_watched(*entry.guards);
  return plan;
}

}  // namespace stator
