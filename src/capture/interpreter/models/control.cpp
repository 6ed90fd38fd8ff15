// Control flow as operators. torch.cond: both branches are interpreted and become graphs; a node runs the one that the
// data chooses. What torch itself refuses there (aliases, writes to arguments, results that differ) is a break, so that
// it is torch that complains.
#include "capture/call/python_node.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/torch/control_loops.h"
#include "capture/interpreter/torch/control_nodes.h"

namespace stator::capture {
namespace {

Value* cond(Interpreter& in, CallArgs& args) {
  Value* predicate = argument(args, 0, "pred");
  Value *yes = argument(args, 1, "true_fn"), *no = argument(args, 2, "false_fn");
  Value* operands = argument(args, 3, "operands");
  if (!predicate || !yes || !no) throw Break{BreakId::raises, "torch.cond is called with wrong arguments"};
  CallArgs given = arguments(operands ? in.unpack(operands) : std::vector<Value*>{});
  if (PyObject* constant = in.constant_of(predicate)) {
    if (!PyLong_Check(constant) && !PyFloat_Check(constant))
      throw Break{BreakId::raises, "the predicate of torch.cond"};
    return in.call(PyObject_IsTrue(constant) ? yes : no, std::move(given));
  }
  refuse_inside(in, "torch.cond");
  auto* chooser = as<TensorValue>(predicate);
  if (!chooser || !TorchTracer::is_truth(in.fake_of(chooser)))
    refuse_control("torch.cond on something else than one bool");
  for (Value* operand : given.positional) require_tensors(in, operand, "torch.cond");
  Branch taken = trace_branch(in, yes, given, "torch.cond"), other = trace_branch(in, no, given, "torch.cond");
  if (!is_alike(in, taken.result, other.result))
    refuse_control("torch.cond whose branches give results of different kinds");

  Operands all;
  Ref taken_places = all.places_of(taken.part), other_places = all.places_of(other.part);
  const bool joined = is_followed(all.fakes());
  Ref results = joined ? joined_results(in, tuple_of(taken.outputs), all.fakes(), "cond") : taken.part.made;
  Ref yes_graph = graph_object(taken.part.graph), no_graph = graph_object(other.part.graph);
  Ref call = Ref::steal(PyObject_CallFunctionObjArgs(known_object("stator.control.Cond"), yes_graph.get(),
                                                     taken_places.get(), no_graph.get(), other_places.get(),
                                                     joined ? Py_True : Py_False, nullptr));
  std::vector<PyObject*> tensors{in.fake_of(chooser)};
  tensors.insert(tensors.end(), all.fakes().begin(), all.fakes().end());
  add_node(in, "cond", call, tensors, results.get());
  return joined ? Replacement(in, taken.outputs, results.get()).of(taken.result) : taken.result;
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
