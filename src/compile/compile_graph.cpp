#include "compile/compile_graph.h"

#include <algorithm>

#include "capture/call/runners.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/input_sizes.h"
#include "compile/errors.h"
#include "compile/graph_facts.h"
#include "core/backend/early_checks.h"
#include "core/backend/registry.h"
#include "core/base/check.h"
#include "core/graph/aliasing.h"
#include "core/graph/overlaps.h"
#include "core/tracer/size_inputs.h"

namespace stator {
using namespace capture;

static BackendCall backend_call = nullptr;
void set_backend_call(BackendCall call) { backend_call = call; }

namespace {

/// The graph's inputs of this call, as a backend gets them: tensors of a subclass as plain ones, so that their class
/// does not see what the backend tries on them. Empty with a Python error set if that failed.
std::optional<std::vector<Ref>> example_inputs(const AttemptResult& result) {
  std::vector<Ref> inputs;
  for (uint32_t index : result.kept_inputs) {
    PyObject* input = result.interpreter->torch.inputs[index]->real.get();
    if (TorchTracer::is_tensor(input) && !TorchTracer::is_plain_class(Py_TYPE(input))) {
      auto* plain = reinterpret_cast<PyObject*>(TorchTracer::tensor_type());
      PyObject* as_subclass = known_object("torch._C.TensorBase.as_subclass");
      inputs.push_back(Ref::steal(PyObject_CallFunctionObjArgs(as_subclass, input, plain, nullptr)));
      if (!inputs.back()) return {};
    } else {
      inputs.push_back(Ref::borrow(input));
    }
  }
  return inputs;
}

/// Adds the conditions on sizes and numbers that a backend assumed to the entry's guards. A number in a condition that
/// our expressions cannot state is specialised on: the graph is captured again with it as a constant.
void guard_for_backend(const std::vector<BackendGuard>& guards, const AttemptResult& result, Entry& entry) {
  if (guards.empty()) return;
  Interpreter& in = *result.interpreter;
  TorchTracer& tracer = in.torch.tracer;
  const Varying before = tracer.constant_numbers();
  for (const BackendGuard& guard : guards) {
    for (const size_t place : guard.floats) {
      const TensorValue* input = in.torch.inputs[result.kept_inputs.at(place)];
      entry.refused_by_backend.floats.insert(input->source->describe());
    }
    if (guard.truth.empty() || !tracer.add_guard(guard.truth))
      entry.refused_by_backend.add_numbers(tracer.numbers_named(guard.symbols));
  }
  entry.specialised_by_backend = tracer.constant_numbers();
  entry.specialised_by_backend.remove_numbers(before);
  renew_size_guards(in);
}

/// Null with a Python error set when the backend failed. `programs_error`: an operator of the program raises on these
/// inputs, so that no backend can compile the graph.
std::unique_ptr<GraphRunner> call_python_backend(const CaptureContext& context, const AttemptResult& result,
                                                 Entry& entry, bool& programs_error) {
  std::optional<std::vector<Ref>> inputs = example_inputs(result);
  if (!inputs) return nullptr;
  std::vector<PyObject*> borrowed;
  for (const Ref& input : *inputs) borrowed.push_back(input.get());
  std::vector<BackendGuard> guards;
  std::unique_ptr<GraphRunner> runner = backend_call(result.graph, borrowed, context.request, guards);
  if (runner) guard_for_backend(guards, result, entry);
  if (runner || !PyErr_ExceptionMatches(error_types().backend_failed.get())) return runner;
  LaterError failure;
  failure.take();
  std::vector<Ref> made;
  for (const SizeInput& size : result.size_inputs)
    made.push_back(leading_input(result.interpreter->torch.inputs[size.tensor]->real.get(), size.dim));
  for (PyObject* input : borrowed)
    made.push_back(PyFloat_CheckExact(input) ? number_tensor_of(input, true) : Ref::borrow(input));
  borrowed.assign(made.size(), nullptr);
  std::transform(made.begin(), made.end(), borrowed.begin(), [](const Ref& input) { return input.get(); });
  programs_error = raises_in_reference(result.graph, borrowed);
  return nullptr;
}

/// A run of a Python backend gets plain tensors, as the example inputs were, unless an operator changes more of an
/// input than its data.
std::unique_ptr<GraphRunner> without_subclasses(const AttemptResult& result, std::unique_ptr<GraphRunner> runner) {
  std::vector<uint32_t> positions;
  for (size_t i = 0; i < result.kept_inputs.size(); ++i) {
    PyObject* input = result.interpreter->torch.inputs[result.kept_inputs[i]]->real.get();
    if (TorchTracer::is_tensor(input) && !TorchTracer::is_plain_class(Py_TYPE(input)))
      positions.push_back(static_cast<uint32_t>(result.size_inputs.size() + i));
  }
  if (positions.empty() || std::ranges::any_of(result.graph->nodes, graph::changes_metadata)) return runner;
  auto* plain = reinterpret_cast<PyObject*>(TorchTracer::tensor_type());
  return make_runner_of_plain_tensors(std::move(runner), std::move(positions), plain);
}

/// Null with a Python error set when the backend failed.
std::unique_ptr<GraphRunner> call_native_backend(const CaptureContext& context, const AttemptResult& result,
                                                 const backend::Choice& choice) {
  try {
    return make_native_runner(result.graph, choice);
  } catch (const std::exception& error) {
    const Ref error_object =
        Ref::steal(PyObject_CallFunction(error_types().backend_failed.get(), "sss", context.request.backend.c_str(),
                                         result.graph->name.c_str(), error.what()));
    if (error_object) PyErr_SetObject(error_types().backend_failed.get(), error_object.get());
    return nullptr;
  }
}

}  // namespace

void give_size_inputs(AttemptResult& result) {
  if (!result.graph) return;
  const tracer::SizeInputs made = tracer::add_size_inputs(*result.graph);
  for (const tracer::SizeTag& size : made.sizes)
    result.size_inputs.push_back({static_cast<int32_t>(result.kept_inputs[size.input]),
                                  size.dim == tracer::kNumberTag ? -1 : static_cast<int32_t>(size.dim)});
  std::vector<uint32_t> kept;
  for (uint32_t position : made.kept) kept.push_back(result.kept_inputs[position]);
  result.kept_inputs = std::move(kept);
}

bool compile_graph(const CaptureContext& context, const Exploration& explored, const Ref& exported, Entry& entry,
                   Plan& plan, std::optional<NoCollection>& no_collection) {
  const AttemptResult& result = explored.result;
  entry.ops = op_count(*result.graph);
  // A graph without operators may still give back an input that is a number.
  if (entry.ops > 0 || !result.graph->outputs.empty()) {
    entry.graph = result.graph;
    // A Python backend may compute first and write later, which is wrong for aliases that it cannot see. The reference
    // executor runs these graphs.
    const bool is_python = context.request.compiler && !result.interpreter->torch.has_hidden_aliases &&
                           !graph::writes_to_overlaps(*result.graph) && !has_refused_write(*result.graph) &&
                           !hides_leaves(*result.graph);
    STATOR_CHECK(!result.is_checked_early || backend::early_part(*result.graph));
    if (is_python) no_collection.reset();
    if (is_python) keep_failures(*result.graph);
    bool programs_error = false;
    if (is_python) plan.graph = call_python_backend(context, result, entry, programs_error);
    if (programs_error) PyErr_Clear();
    const backend::Choice reference;
    const bool runs_natively = !is_python || programs_error;
    if (runs_natively && result.is_checked_early) examine_run(*result.graph, true);  // moves the checks to the front
    if (runs_natively)
      plan.graph = call_native_backend(context, result, context.request.compiler ? reference : *context.request.native);
    if (!plan.graph) return false;
    plan.graph->refuses_warnings = result.interpreter->torch.tracer.has_refused_warnings();
    if (!runs_natively) plan.graph = without_subclasses(result, std::move(plan.graph));
    if (exported && !Ref::steal(PyObject_CallOneArg(context.request.guards->exported.get(), exported.get())))
      return false;
  }
  drop_fakes(*result.graph);
  return true;
}

}  // namespace stator
