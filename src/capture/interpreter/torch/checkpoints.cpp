#include "capture/interpreter/torch/checkpoints.h"

#include <algorithm>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/control_nodes.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/parts.h"
#include "capture/pycompat/text.h"
#include "core/graph/control_ops.h"

namespace stator::capture {
namespace {

/// A flag of torch.utils.checkpoint that the program sets for all its calls, or none. The guards hold its value.
std::optional<bool> global_flag(Interpreter& in, const char* name) {
  static PyObject* const module = known_object("torch.utils.checkpoint");
  PyObject* constant = in.constant_of(in.get_attr(in.constant(module), PyUnicode_InternFromString(name)));
  if (constant == Py_None) return std::nullopt;
  if (constant != Py_True && constant != Py_False)
    throw Break{BreakId::unknown_call, "torch.utils.checkpoint with settings that are not constants"};
  return constant == Py_True;
}

/// The options of torch.utils.checkpoint, besides the function and its arguments.
struct Options {
  std::optional<bool> preserve_rng_state, early_stop;
  std::optional<std::string> determinism_check;

  /// False for a keyword that belongs to the function.
  bool take(Interpreter& in, PyObject* name, Value* value) {
    auto is = [&](const char* option) { return PyUnicode_CompareWithASCIIString(name, option) == 0; };
    if (is("preserve_rng_state")) return preserve_rng_state = flag(in, value), true;
    if (is("early_stop")) return early_stop = flag(in, value), true;
    if (is("debug") || is("context_fn")) return require_default(in, value), true;
    if (!is("determinism_check")) return is("use_reentrant");
    PyObject* text = in.constant_of(value);
    determinism_check = text_of(text, "");
    if (determinism_check != "default" && determinism_check != "none") refuse();
    return true;
  }

  void take_globals(Interpreter& in) {
    if (global_flag(in, "_checkpoint_debug_enabled").value_or(false)) refuse();
    if (auto flag = global_flag(in, "_enable_checkpoint_early_stop")) early_stop = flag;
  }

 private:
  static bool flag(Interpreter& in, Value* value) {
    PyObject* constant = in.constant_of(value);
    if (constant != Py_True && constant != Py_False) refuse();
    return constant == Py_True;
  }
  /// Of `debug` and `context_fn`: with other values, Python code runs in each recomputation.
  static void require_default(Interpreter& in, Value* value) {
    static PyObject* const no_context = known_object("torch.utils.checkpoint.noop_context_fn");
    if (in.constant_of(value) == Py_False) return;
    if (!value->source || value->source->object.get() != no_context) refuse();
    in.guards.add(value->source, FactKind::Identity, no_context);
  }
  [[noreturn]] static void refuse() {
    PyErr_Clear();
    throw Break{BreakId::unknown_call, "torch.utils.checkpoint with options that are not supported"};
  }
};

/// Fakes of the tensors in a result, each once.
std::vector<PyObject*> fakes_of(Interpreter& in, const std::vector<TensorValue*>& tensors) {
  std::vector<PyObject*> fakes;
  for (TensorValue* tensor : tensors) {
    PyObject* fake = in.fake_of(tensor);
    if (std::find(fakes.begin(), fakes.end(), fake) == fakes.end()) fakes.push_back(fake);
  }
  return fakes;
}

/// The function's arguments, each once. Autograd saves them and checks them for changes.
std::vector<PyObject*> saved_arguments(Interpreter& in, const std::vector<Value*>& given) {
  std::vector<TensorValue*> tensors;
  for (Value* value : given)
    if (auto* tensor = as<TensorValue>(value)) tensors.push_back(tensor);
  return fakes_of(in, tensors);
}

/// A call of torch.utils.checkpoint.checkpoint.
struct Call {
  Value* function;
  CallArgs inner;  // for the function
  Options options;
};

const char* const kPart = "a checkpointed part";

Value* recomputed_part(Interpreter& in, Call call) {
  const std::vector<Value*> given = call.inner.positional;
  const size_t first = in.torch.tracer.node_count();
  Value* result = run_part(in, call.function, std::move(call.inner), kPart);
  std::vector<TensorValue*> tensors;
  collect_tensors(in, result, kPart, tensors, Subclasses::Kept);
  // Without gradients there is nothing to compute again.
  if (std::none_of(tensors.begin(), tensors.end(), [&](TensorValue* tensor) { return requires_grad(in, tensor); }))
    return result;
  TorchTracer::Part part = in.torch.tracer.cut(first, fakes_of(in, tensors));
  if (!part.graph) in.torch.fail("checkpoint");
  const std::vector<PyObject*> saved = saved_arguments(in, given);
  SubgraphInputs inputs(saved);
  inputs.add(part);
  inputs.arrange(part);
  const auto op = part.written.empty() ? graph::ControlOp::Checkpoint : graph::ControlOp::WritingCheckpoint;
  const Options& options = call.options;
  add_control(in, "checkpoint", op,
              {part.graph, saved, inputs.from_elsewhere(), options.preserve_rng_state, options.early_stop,
               options.determinism_check},
              part.made.get());
  return result;
}

[[noreturn]] void refuse_reentrant(const char* why) {
  throw Break{BreakId::unknown_call, std::string("a reentrant torch.utils.checkpoint ") + why};
}

/// The part of a reentrant checkpoint, with gradients or without. Returns a tensor, or a tuple of tensors and
/// constants: autograd does not look into other objects.
struct ReentrantRun {
  Value* result;
  TorchTracer::Part part;

  ReentrantRun(Interpreter& in, const Call& call, bool with_gradients) {
    const size_t first = in.torch.tracer.node_count();
    GradModeScope mode(with_gradients);
    bool& is_detached = in.torch.scope.arguments_are_detached;
    const ScopedValue detached(is_detached, is_detached || with_gradients);
    result = run_part(in, call.function, call.inner, kPart);
    std::vector<Value*> items = {result};
    if (result->kind == Kind::Tuple && in.type_of(result) == &PyTuple_Type) {
      auto* tuple = static_cast<SequenceValue*>(result);
      items.clear();
      for (size_t i = 0; i < tuple->items.size(); ++i) items.push_back(in.item(tuple, i));
    }
    std::vector<TensorValue*> tensors;
    for (Value* item : items) {
      if (item->kind != Kind::Tensor && item->kind != Kind::Constant) refuse_reentrant("with results in containers");
      collect_tensors(in, item, kPart, tensors);
    }
    if (tensors.empty()) refuse_reentrant("without results");
    std::vector<PyObject*> outputs;
    for (TensorValue* tensor : tensors) outputs.push_back(in.fake_of(tensor));
    part = in.torch.tracer.cut(first, outputs);
    if (!part.graph) in.torch.fail("checkpoint");
    if (part.aliases) refuse_reentrant("whose results share memory");
  }
};

Value* reentrant_part(Interpreter& in, const Call& call) {
  // What traces a graph for Python backends asks for gradients in a way that torch forbids here.
  if (in.options.for_python_backend) refuse_reentrant("in a graph for a Python backend");
  if (in.options.for_compiled_autograd) refuse_reentrant("under compiled autograd");
  if (!call.inner.keywords.empty()) refuse_reentrant("with keyword arguments");
  const std::vector<Value*>& given = call.inner.positional;
  auto is_tensor = [](Value* value) { return value->kind == Kind::Tensor; };
  const std::vector<PyObject*> arguments = saved_arguments(in, given);
  if (static_cast<size_t>(std::count_if(given.begin(), given.end(), is_tensor)) != arguments.size())
    refuse_reentrant("of a tensor that is given twice");
  if (!needs_gradients(arguments)) refuse_reentrant("without gradients");
  ReentrantRun first(in, call, false), again(in, call, true);
  if (PyTuple_GET_SIZE(first.part.made.get()) != PyTuple_GET_SIZE(again.part.made.get()))
    refuse_reentrant("whose results depend on the grad mode");
  bool writes = false;
  for (TorchTracer::Part* part : {&first.part, &again.part})
    for (PyObject* fake : part->written) {
      if (std::find(arguments.begin(), arguments.end(), fake) != arguments.end())
        refuse_reentrant("that writes to its arguments");
      writes = true;
    }
  SubgraphInputs inputs(arguments);
  for (TorchTracer::Part* part : {&first.part, &again.part}) inputs.add(*part);
  for (TorchTracer::Part* part : {&first.part, &again.part}) inputs.arrange(*part);
  if (!in.torch.tracer.attach_checkpoint(first.part.made.get(), arguments)) in.torch.fail("checkpoint");
  const auto op = writes ? graph::ControlOp::WritingReentrant : graph::ControlOp::Reentrant;
  add_control(in, "checkpoint", op,
              {first.part.graph, again.part.graph, arguments, inputs.from_elsewhere(),
               call.options.preserve_rng_state.value_or(true)},
              first.part.made.get());
  return first.result;
}

}  // namespace

Value* checkpoint(Interpreter& in, CallArgs& args) {
  if (in.frames.in_transform()) throw Break{BreakId::unknown_call, "torch.utils.checkpoint inside of a transform"};
  Value* reentrant = args.keyword("use_reentrant");
  PyObject* is_reentrant = reentrant ? in.constant_of(reentrant) : nullptr;
  if (is_reentrant != Py_False && is_reentrant != Py_True)
    throw Break{BreakId::unknown_call, "torch.utils.checkpoint without a constant use_reentrant"};
  Call call{args.positional.at(0), arguments({args.positional.begin() + 1, args.positional.end()}), {}};
  for (auto& [key, value] : args.keywords)
    if (!call.options.take(in, key.get(), value)) call.inner.keywords.emplace_back(key, value);
  // The backward pass runs the part again, under other modes.
  if (has_active_mode(in)) throw Break{BreakId::unknown_call, "torch.utils.checkpoint under a torch-function mode"};
  if (is_reentrant == Py_True) return reentrant_part(in, call);
  call.options.take_globals(in);
  return recomputed_part(in, std::move(call));
}

}  // namespace stator::capture
