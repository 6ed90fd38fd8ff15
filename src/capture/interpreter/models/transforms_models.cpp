// Transforms of torch.func. Their Python code is interpreted, and functorch itself runs on wrappers around fakes; the
// operators it calls on the fakes are recorded. This file models the other functions that the Python code calls.
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

/// Registers vmap kernels for some operators, once per process.
Value* load_decompositions(Interpreter& in, CallArgs&) {
  static PyObject* const load = known_object("torch._functorch.predispatch.lazy_load_decompositions");
  Ref done = Ref::steal(PyObject_CallNoArgs(load));
  if (!done) throw Break{BreakId::torch_error, take_error_text()};
  return in.none();
}

void require_wrapped(Interpreter& in, Value* outputs) {
  for (Value* output : in.unpack(outputs)) {
    auto* tensor = as<TensorValue>(output);
    // The autograd graph of a fake outside the transform is not that of a run.
    if (!tensor || !tensor->wrapped_at)
      throw Break{BreakId::unknown_call, "gradients of a plain tensor in a transform"};
  }
}

/// Runs autograd on the wrappers, and so on the fakes inside them.
Value* gradients(Interpreter& in, CallArgs& args) {
  static PyObject* const run = known_object("stator.functions.gradients");
  require_wrapped(in, args.positional[0]);
  return in.call_torch(run, args);
}

Value* make_dual(Interpreter& in, CallArgs& args) {
  static PyObject *const make = known_object("torch._make_dual"), *const level = known_object(
                                                                      "torch._C._functorch.maybe_current_level");
  Ref current = Ref::steal(PyObject_CallNoArgs(level));
  // A dual tensor of a plain tensor would remain in the graph, which runs without an open level.
  if (in.frames.in_transform() && current.get() == Py_None)
    throw Break{BreakId::unknown_call, "forward-mode AD outside of torch.func"};
  return in.call_torch(make, args);
}

constexpr ModelRow kRows[] = {
    {"torch._functorch.predispatch.lazy_load_decompositions", load_decompositions, 0, 0},
    {"torch._functorch.eager_transforms._autograd_grad", gradients, 2, 5, "grad_outputs retain_graph create_graph"},
    {"torch._make_dual", make_dual, 2, 3, "level"},
};

}  // namespace

std::span<const ModelRow> transform_models() { return kRows; }

}  // namespace stator::capture
