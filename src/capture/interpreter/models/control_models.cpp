// Control flow operators. torch.cond: both branches are interpreted and become sub-graphs; a node runs the one that the
// data selects. What torch rejects (aliases, writes to arguments, results that differ) is a break, so that torch raises
// its own error.
#include <algorithm>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/control_loops.h"
#include "capture/interpreter/torch/control_nodes.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "core/graph/control_ops.h"

namespace stator::capture {
namespace {

Value* cond(Interpreter& in, CallArgs& args) {
  Value* predicate = argument(args, 0, "pred");
  Value *yes = argument(args, 1, "true_fn"), *no = argument(args, 2, "false_fn");
  Value* operands = argument(args, 3, "operands");
  if (!predicate || !yes || !no) throw Break{BreakId::raises, "torch.cond called with wrong arguments"};
  CallArgs given = arguments(operands ? in.unpack(operands) : std::vector<Value*>{});
  if (PyObject* constant = in.constant_of(predicate)) {
    if (!PyLong_Check(constant) && !PyFloat_Check(constant))
      throw Break{BreakId::raises, "the predicate of torch.cond"};
    return in.call(PyObject_IsTrue(constant) ? yes : no, std::move(given));
  }
  if (is_symbolic_number(predicate)) return in.call(in.truth(predicate) ? yes : no, std::move(given));
  refuse_inside(in, "torch.cond");
  auto* chooser = as<TensorValue>(predicate);
  if (!chooser || !TorchTracer::is_truth(in.fake_of(chooser)))
    refuse_control("torch.cond on a predicate that is not one bool");
  if (!TorchTracer::is_plain_class(chooser->type)) refuse_control("torch.cond on a predicate of a subclass");
  for (Value* operand : given.positional) require_tensors(in, operand, "torch.cond");
  Branch taken = trace_branch(in, yes, given, "torch.cond", true);
  Branch other = trace_branch(in, no, given, "torch.cond", true);
  if (!is_alike(in, taken.result, other.result))
    refuse_control("torch.cond whose branches return different structures");

  SubgraphInputs inputs;
  inputs.add(taken.part);
  inputs.add(other.part);
  inputs.arrange(taken.part);
  inputs.arrange(other.part);
  const std::vector<PyObject*>& tensors = inputs.from_elsewhere();
  const auto op = graph::ControlOp::Cond;
  const bool differentiable = needs_gradients(tensors);
  Ref results = differentiable ? joined_results(in, op, tuple_of(taken.outputs), tensors, "cond") : taken.part.made;
  add_control(in, "cond", op, {in.fake_of(chooser), taken.part.graph, other.part.graph, tensors, differentiable},
              results.get());
  return differentiable ? Replacement(in, taken.outputs, results.get()).of(taken.result) : taken.result;
}

constexpr ModelRow kRows[] = {
    {"torch._higher_order_ops.cond.cond", cond, 1, 4, "pred true_fn false_fn operands"},
    {"torch._higher_order_ops.while_loop.while_loop", while_loop, 0, 3, "cond_fn body_fn carried_inputs"},
    {"torch._higher_order_ops.map.map", map_rows, 2},
    {"torch._higher_order_ops.scan.ScanOp.__call__", scan, 4, 5, "additional_inputs"},
    {"torch._higher_order_ops.utils._maybe_compile_and_run_fn", run_in_place, 1},
};

}  // namespace

std::span<const ModelRow> control_models() { return kRows; }

}  // namespace stator::capture
