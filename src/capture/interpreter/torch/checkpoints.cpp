#include "capture/interpreter/torch/checkpoints.h"

#include <algorithm>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/torch/control_nodes.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/parts.h"
#include "core/graph/control_ops.h"

namespace stator::capture {
namespace {

/// The options of torch.utils.checkpoint, besides the function and its arguments.
struct Options {
  std::optional<bool> preserve_rng_state, early_stop;
  std::optional<std::string> determinism_check;

  /// False for a keyword that belongs to the function.
  bool take(Interpreter& in, PyObject* name, Value* value) {
    auto is = [&](const char* option) { return PyUnicode_CompareWithASCIIString(name, option) == 0; };
    if (is("preserve_rng_state")) return preserve_rng_state = flag(in, value), true;
    if (is("early_stop")) return early_stop = flag(in, value), true;
    if (!is("determinism_check")) return is("use_reentrant");
    PyObject* text = in.constant_of(value);
    const char* chars = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
    if (!chars) refuse();
    determinism_check = chars;
    return true;
  }

 private:
  static bool flag(Interpreter& in, Value* value) {
    PyObject* constant = in.constant_of(value);
    if (constant != Py_True && constant != Py_False) refuse();
    return constant == Py_True;
  }
  [[noreturn]] static void refuse() {
    PyErr_Clear();
    throw Break{BreakId::unknown_call, "torch.utils.checkpoint with options that are no constants"};
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

/// The function's arguments that its graph uses, each once. Torch saves them and checks them for changes.
std::vector<PyObject*> saved_arguments(Interpreter& in, const std::vector<Value*>& given,
                                       const TorchTracer::Part& part) {
  std::vector<PyObject*> saved;
  for (Value* value : given) {
    auto* tensor = as<TensorValue>(value);
    PyObject* fake = tensor ? in.fake_of(tensor) : nullptr;
    auto is_it = [&](const Ref& input) { return input.get() == fake; };
    const bool is_taken = fake && std::any_of(part.inputs.begin(), part.inputs.end(), is_it);
    if (is_taken && std::find(saved.begin(), saved.end(), fake) == saved.end()) saved.push_back(fake);
  }
  return saved;
}

}  // namespace

Value* checkpoint(Interpreter& in, CallArgs& args) {
  if (in.frames.in_transform()) throw Break{BreakId::unknown_call, "torch.utils.checkpoint inside of a transform"};
  Value* reentrant = args.keyword("use_reentrant");
  if (!reentrant || in.constant_of(reentrant) != Py_False || args.keyword("context_fn") || args.keyword("debug"))
    throw Break{BreakId::unknown_call, "torch.utils.checkpoint that is reentrant or has a context of its own"};
  CallArgs inner = arguments({args.positional.begin() + 1, args.positional.end()});
  Options options;
  for (auto& [key, value] : args.keywords)
    if (!options.take(in, key.get(), value)) inner.keywords.emplace_back(key, value);
  // The backward pass runs the part again, under other modes.
  if (has_active_mode(in)) throw Break{BreakId::unknown_call, "torch.utils.checkpoint under a torch-function mode"};
  const std::vector<Value*> given = inner.positional;
  const size_t first = in.torch.tracer.node_count();
  const char* const what = "a checkpointed part";
  Value* result = run_part(in, args.positional.at(0), std::move(inner), what);
  std::vector<TensorValue*> tensors;
  collect_tensors(in, result, what, tensors);
  // Without gradients there is nothing to compute again.
  if (std::none_of(tensors.begin(), tensors.end(), [&](TensorValue* tensor) { return requires_grad(in, tensor); }))
    return result;
  TorchTracer::Part part = in.torch.tracer.cut(first, fakes_of(in, tensors));
  if (!part.graph) in.torch.fail("checkpoint");
  const std::vector<PyObject*> saved = saved_arguments(in, given, part);
  SubgraphInputs inputs(saved);
  inputs.add(part);
  inputs.arrange(part);
  const auto op = part.writes ? graph::ControlOp::WritingCheckpoint : graph::ControlOp::Checkpoint;
  add_control(in, "checkpoint", op,
              {part.graph, saved, inputs.from_elsewhere(), options.preserve_rng_state, options.early_stop,
               options.determinism_check},
              part.made.get());
  return result;
}

}  // namespace stator::capture
