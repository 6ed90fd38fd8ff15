#include "capture/interpreter/torch/checkpoints.h"

#include <algorithm>

#include "capture/call/python_node.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/parts.h"

namespace stator::capture {

Value* checkpoint(Interpreter& in, CallArgs& args) {
  static constexpr const char* kOptions[] = {"determinism_check", "early_stop", "preserve_rng_state"};
  if (in.in_transform) throw Break{BreakId::unknown_call, "torch.utils.checkpoint inside of a transform"};
  Value* reentrant = args.keyword("use_reentrant");
  if (!reentrant || in.constant_of(reentrant) != Py_False || args.keyword("context_fn") || args.keyword("debug"))
    throw Break{BreakId::unknown_call, "torch.utils.checkpoint that is reentrant or has a context of its own"};
  CallArgs inner = arguments({args.positional.begin() + 1, args.positional.end()});
  Ref options = Ref::steal(PyDict_New());
  for (auto& [key, value] : args.keywords) {
    auto is = [&](const char* option) { return PyUnicode_CompareWithASCIIString(key.get(), option) == 0; };
    PyObject* constant = in.constant_of(value);
    if (is("use_reentrant")) continue;
    if (std::none_of(std::begin(kOptions), std::end(kOptions), is)) {
      inner.keywords.emplace_back(key, value);
    } else if (!constant) {
      throw Break{BreakId::unknown_call, "torch.utils.checkpoint with options that are no constants"};
    } else {
      PyDict_SetItem(options.get(), key.get(), constant);
    }
  }
  // A second run of the part, by a backward pass, has other modes.
  if (has_active_mode(in)) throw Break{BreakId::unknown_call, "torch.utils.checkpoint under a torch-function mode"};
  const std::vector<Value*> given = inner.positional;
  const size_t first = in.torch.node_count();
  const char* const what = "a checkpointed part";
  Value* result = run_part(in, args.positional.at(0), std::move(inner), what);
  std::vector<TensorValue*> tensors;
  collect_tensors(in, result, what, tensors);
  // What no backward pass follows is not kept for one.
  if (std::none_of(tensors.begin(), tensors.end(), [&](TensorValue* tensor) { return requires_grad(in, tensor); }))
    return result;
  std::vector<PyObject*> outputs, inputs;
  for (TensorValue* tensor : tensors) {
    PyObject* fake = in.fake_of(tensor);
    if (std::find(outputs.begin(), outputs.end(), fake) == outputs.end()) outputs.push_back(fake);
  }
  TorchTracer::Part part = in.torch.cut(first, outputs);
  if (!part.graph) in.torch_failed("checkpoint");
  for (const Ref& input : part.inputs) inputs.push_back(input.get());
  Ref graph = graph_object(part.graph), places = Ref::steal(PyList_New(0));
  for (Value* value : given) {
    auto* tensor = as<TensorValue>(value);
    auto place = tensor ? std::find(inputs.begin(), inputs.end(), in.fake_of(tensor)) : inputs.end();
    if (place == inputs.end()) continue;
    Ref number = Ref::steal(PyLong_FromSsize_t(place - inputs.begin()));
    PyList_Append(places.get(), number.get());
  }
  Ref call = Ref::steal(PyObject_CallFunctionObjArgs(known_object("stator.functions.Checkpoint"), graph.get(),
                                                     places.get(), options.get(), nullptr));
  in.locate();
  const CallNode kind = part.writes ? CallNode::Writing : CallNode::Random;
  if (!in.torch.add_call(call.get(), inputs, part.made.get(), kind)) in.torch_failed("checkpoint");
  return result;
}

}  // namespace stator::capture
