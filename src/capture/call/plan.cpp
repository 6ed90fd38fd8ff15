#include "capture/call/plan.h"

#include <optional>

#include "capture/call/make_steps.h"
#include "capture/call/signals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/tensors/tensor_object.h"
#include "core/shapes/number_ops.h"

namespace stator::capture {

bool Plan::run(const CheckArray& guards, PlanResult& result) const {
  RefRow<8> owned(disowned_.size());
  for (size_t i = 0; i < disowned_.size(); ++i) owned[i] = Ref::borrow(disowned_[i]);
  if (frames.empty()) {
    RefRow<32> made(steps.size());
    return run_with_modes(guards, made.data(), result);
  }
  result.made.resize(steps.size());
  return run_with_modes(guards, result.made.data(), result);
}

bool Plan::run_with_modes(const CheckArray& guards, Ref* made, PlanResult& result) const {
  if (!hides_modes && modes_at_end.kept < 0) return run_steps(guards, made, result);
  {
    std::optional<WithoutFunctionModes> hidden;
    if (hides_modes) hidden.emplace();
    if (!run_steps(guards, made, result)) return false;
  }
  if (modes_at_end.kept < 0) return true;
  std::vector<PyObject*> pushed;
  for (int32_t mode : modes_at_end.pushed) pushed.push_back(made[mode].get());
  change_function_modes(modes_at_end.kept, pushed);
  set_overriding(modes_at_end.state);
  return true;
}

bool Plan::run_steps(const CheckArray& guards, Ref* made, PlanResult& given) const {
  constexpr size_t kInline = 64;
  PyObject* inline_row[kInline];
  std::unique_ptr<PyObject*[]> heap_row;
  PyObject** tensors = inline_row;
  if (inputs.size() > kInline) {
    heap_row = std::make_unique<PyObject*[]>(inputs.size());
    tensors = heap_row.get();
  }
  RefRow<8> outputs(graph ? graph->output_count() : 0);
  PlanRun run{guards, {tensors, inputs.size()}, {outputs.data(), outputs.size()}, made};
  // Take references to the slots' objects first: slots are borrowed, and other threads may run while the graph does.
  for (int32_t i : slots_) made[i] = Ref::borrow(guards.slot(steps[i].a));
  for (size_t i = 0; i < inputs.size(); ++i) tensors[i] = guards.slot(inputs[i]);
  if (graph && !run_graph(guards, {tensors, inputs.size()}, {outputs.data(), outputs.size()}, given.operator_failed)) {
    guards.globals().restore();
    return false;
  }
  for (int32_t i : order_) {
    made[i] = kStepMakers[static_cast<size_t>(steps[i].kind)](steps[i], run);
    if (!made[i]) return false;
  }
  if (state_at_end) state_at_end->restore();
  if (frames.empty()) given.result = made[result];
  return true;
}

Ref leading_input(PyObject* object, int32_t dim) {
  return dim < 0 ? Ref::borrow(object) : Ref::steal(PyLong_FromLongLong(size_of(object, dim)));
}

Ref number_tensor_of(PyObject* object, bool as_tensor) {
  const shapes::Number number = PyFloat_CheckExact(object)
                                    ? shapes::Number(PyFloat_AS_DOUBLE(object))
                                    : shapes::Number(static_cast<int64_t>(PyLong_AsLongLong(object)));
  return Ref::steal(handle_errors([&] {
    at::Tensor made = shapes::number_tensor(number);
    if (as_tensor) made.unsafeGetTensorImpl()->set_wrapped_number(false);
    return wrap_tensor(std::move(made));
  }));
}

bool Plan::run_graph(const CheckArray& guards, std::span<PyObject*> tensors, std::span<Ref> outputs,
                     bool& undone) const {
  std::vector<Ref> made;
  // Read first: another thread may use the slots as soon as Python code runs.
  for (const SizeInput& size : size_inputs) {
    made.push_back(leading_input(guards.slot(size.tensor), size.dim));
    if (!made.back()) return false;
  }
  for (size_t i : array_inputs) {
    made.push_back(Ref::steal(PyObject_CallOneArg(from_array.get(), tensors[i])));
    if (!(tensors[i] = made.back().get())) return false;
  }
  for (size_t i : number_inputs) {
    made.push_back(number_tensor_of(tensors[i], numbers_as_tensors));  // a guard made sure that an int fits
    if (!(tensors[i] = made.back().get())) return false;
  }
  std::vector<PyObject*> row;
  std::span<PyObject* const> given = tensors;
  if (!size_inputs.empty()) {
    for (size_t i = 0; i < size_inputs.size(); ++i) row.push_back(made[i].get());
    row.insert(row.end(), tensors.begin(), tensors.end());
    given = row;
  }
  if (has_subclasses) set_overriding(Overriding::SubclassesDisabled);
  bool done = graph->run(given, outputs, undone);
  if (has_subclasses) set_overriding(Overriding::Enabled);
  // The graph failed because a signal handler raised. Running the program again would lose that exception.
  if (undone && is_raised_by_signal()) undone = false;
  // Nodes of the graph change torch's state and put it back; a failure came in between.
  if (!done) guards.globals().restore();
  if (!done && undone) undone = graph->is_programs_error(given);
  return done;
}

}  // namespace stator::capture
