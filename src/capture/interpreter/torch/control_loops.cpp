// Loop operators: while_loop, map, scan.
#include "capture/interpreter/torch/control_loops.h"

#include <algorithm>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/control_nodes.h"
#include "capture/interpreter/torch/parts.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "core/graph/control_ops.h"

namespace stator::capture {
namespace {

/// A new value for the same tensor, so that an argument of the body differs from a tensor that the body closes over.
TensorValue* alias_of(Interpreter& in, TensorValue* tensor) {
  return static_cast<TensorValue*>(in.call_torch(known_operator("alias"), arguments({tensor})));
}

TensorValue* tensor_of(Value* value, const char* what) {
  auto* tensor = as<TensorValue>(value);
  if (!tensor || !TorchTracer::is_plain_class(tensor->type)) refuse_control(what);
  return tensor;
}

}  // namespace

Value* while_loop(Interpreter& in, CallArgs& args) {
  Value *condition = argument(args, 0, "cond_fn"), *body = argument(args, 1, "body_fn");
  Value* carried = argument(args, 2, "carried_inputs");
  if (!condition || !body || !carried) throw Break{BreakId::raises, "while_loop is called with wrong arguments"};
  refuse_inside(in, "while_loop");
  CallArgs given;
  std::vector<PyObject*> first;
  for (Value* item : in.unpack(carried)) {
    auto* tensor = as<TensorValue>(item);
    if (!tensor) refuse_control("while_loop that carries something else than tensors");
    given.positional.push_back(alias_of(in, tensor));
    first.push_back(in.fake_of(static_cast<TensorValue*>(given.positional.back())));
  }
  auto trace = [&](Value* function) { return trace_branch(in, function, given, "while_loop", true); };
  Branch test = trace(condition), step = trace(body);
  if (test.result->kind != Kind::Tensor || !TorchTracer::is_truth(test.outputs[0]))
    refuse_control("while_loop whose condition does not return one bool");
  SequenceValue* carry = in.tuple(given.positional);
  if (step.result->kind != Kind::Tuple || !is_alike(in, step.result, carry))
    refuse_control("while_loop whose body does not return values like those it takes");
  SubgraphInputs inputs(first);
  inputs.add(test.part);
  inputs.add(step.part);
  inputs.arrange(test.part);
  inputs.arrange(step.part);
  if (any_requires_grad(first) || any_requires_grad(inputs.from_elsewhere())) refuse_control("gradients of while_loop");
  add_control(in, "while_loop", graph::ControlOp::WhileLoop,
              {test.part.graph, step.part.graph, first, inputs.from_elsewhere()}, step.part.made.get());
  return step.result;
}

namespace {

/// The inputs of a loop over rows: tensors carried from one iteration to the next, and tensors taken row by row.
class Turns {
 public:
  Turns(Interpreter& in, const char* what) : in_(in), what_(what) {}

  /// Adds a carried tensor; returns the body's argument for it, the value of the first iteration.
  Value* carry(TensorValue* tensor) {
    TensorValue* alias = alias_of(in_, tensor);
    carried_.push_back(in_.fake_of(alias));
    given_.push_back(carried_.back());
    return alias;
  }

  /// Adds a tensor taken row by row; returns the body's argument for it, its first row.
  Value* row_of(TensorValue* tensor) {
    static PyObject* const select = known_object("torch.select");
    TensorValue* alias = alias_of(in_, tensor);
    rows_.push_back(in_.fake_of(alias));
    if (!TorchTracer::have_same_rows(rows_.back(), rows_.front()))
      throw Break{BreakId::raises, std::string("the rows of ") + what_};
    Value* row = in_.call_torch(select, arguments({alias, in_.integer(0), in_.integer(0)}));
    given_.push_back(in_.fake_of(static_cast<TensorValue*>(row)));
    return row;
  }

  /// Orders the inputs of the body's graph: its arguments, then the tensors that it closes over.
  void arrange(TorchTracer::Part& part) {
    SubgraphInputs inputs(given_);
    inputs.add(part);
    from_elsewhere_ = inputs.from_elsewhere();
    inputs.arrange(part);
  }

  /// Results that stack the rows of all iterations.
  Ref stacked(const std::vector<PyObject*>& rows) {
    Ref results = rows.empty() ? tuple_of({}) : in_.torch.tracer.stack_rows(rows, rows_.at(0));
    if (!results) in_.torch.fail(what_);
    return results;
  }

  bool has_rows() const { return !rows_.empty(); }
  const std::vector<PyObject*>& carried() const { return carried_; }
  const std::vector<PyObject*>& rows() const { return rows_; }
  const std::vector<PyObject*>& from_elsewhere() const { return from_elsewhere_; }
  /// All inputs of the node.
  std::vector<PyObject*> taken() const {
    std::vector<PyObject*> all = carried_;
    all.insert(all.end(), rows_.begin(), rows_.end());
    all.insert(all.end(), from_elsewhere_.begin(), from_elsewhere_.end());
    return all;
  }

 private:
  Interpreter& in_;
  const char* what_;
  std::vector<PyObject*> carried_, rows_, from_elsewhere_;
  std::vector<PyObject*> given_;  // fakes that the body is called with
};

}  // namespace

/// Has the graph read the symbolic sizes of the tensor before the body, which may use them but not the whole tensor.
static void read_sizes(Interpreter& in, TensorValue* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("shape");
  if (!TorchTracer::has_symbolic_sizes(in.fake_of(tensor))) return;
  auto* shape = as_sequence(in.get_attr(tensor, name));
  for (size_t i = 0; shape && i < shape->items.size(); ++i)
    if (auto* size = as<NumberValue>(in.item(shape, i))) number_fake(in, size);
}

Value* map_rows(Interpreter& in, CallArgs& args) {
  Value* rows = args.positional.at(1);
  refuse_inside(in, "map");
  require_tensors(in, rows, "map");
  std::vector<TensorValue*> mapped;
  collect_tensors(in, rows, "map", mapped);
  Turns turns(in, "map");
  std::vector<PyObject*> mapped_fakes, row_fakes;
  for (TensorValue* tensor : mapped) {
    PyObject* fake = in.fake_of(tensor);
    if (std::find(mapped_fakes.begin(), mapped_fakes.end(), fake) != mapped_fakes.end())
      refuse_control("map over a tensor twice");
    mapped_fakes.push_back(fake);
    read_sizes(in, tensor);
    row_fakes.push_back(in.fake_of(static_cast<TensorValue*>(turns.row_of(tensor))));
  }
  if (!turns.has_rows()) throw Break{BreakId::raises, "map over nothing"};
  Ref row_tuple = tuple_of(row_fakes);
  CallArgs given = arguments({Replacement(in, mapped_fakes, row_tuple.get()).of(rows)});
  for (size_t i = 2; i < args.positional.size(); ++i) {
    require_tensors(in, args.positional[i], "map");
    given.positional.push_back(args.positional[i]);
  }
  Branch body = trace_branch(in, args.positional[0], std::move(given), "map");
  turns.arrange(body.part);
  // Torch rejects a mapped tensor that the body also closes over.
  for (PyObject* fake : turns.from_elsewhere())
    if (std::find(mapped_fakes.begin(), mapped_fakes.end(), fake) != mapped_fakes.end())
      refuse_control("map over a tensor that its body also closes over");
  if (any_requires_grad(turns.taken())) refuse_control("gradients of map");
  Ref results = turns.stacked(body.outputs);
  add_control(in, "map", graph::ControlOp::Map, {body.part.graph, turns.rows(), turns.from_elsewhere()}, results.get());
  return Replacement(in, body.outputs, results.get()).of(body.result);
}

namespace {

/// The tensors of a flattened list.
std::vector<TensorValue*> leaves(Interpreter& in, Value* list) {
  std::vector<TensorValue*> tensors;
  for (Value* leaf : in.unpack(list)) tensors.push_back(tensor_of(leaf, "scan with something else than tensors"));
  return tensors;
}

/// Whether the carried result has the structure of the initial carry, which torch stores in the function.
bool is_carried_on(Interpreter& in, Value* function, Value* carry) {
  Value* keywords = in.find_attr(function, PyUnicode_InternFromString("keywords"));
  Value* wanted =
      keywords ? in.dict_get(as<DictValue>(keywords), in.constant(PyUnicode_InternFromString("spec_init"))) : nullptr;
  if (!wanted) return false;
  PyObject* flatten = known_object("torch.utils._pytree.tree_flatten");
  Value* flat = in.call(in.wrap(flatten, in.guards.sources().pinned(flatten, "tree_flatten")), arguments({carry}));
  return in.truth(in.compare(Py_EQ, in.get_item(flat, in.integer(1)), wanted));
}

}  // namespace

/// The operator under torch's own scan(): (self, combine_fn, init, xs, additional_inputs) on flat lists, along the
/// first dimension.
Value* scan(Interpreter& in, CallArgs& args) {
  Value *function = args.positional.at(1), *more = argument(args, 4, "additional_inputs");
  if (function->kind != Kind::Object || !more || !in.unpack(more).empty())
    refuse_control("the scan operator, not called by torch's scan()");
  refuse_inside(in, "scan");
  std::vector<TensorValue*> init = leaves(in, args.positional.at(2)), xs = leaves(in, args.positional.at(3));
  Turns turns(in, "scan");
  CallArgs given;
  for (TensorValue* tensor : init) given.positional.push_back(turns.carry(tensor));
  for (TensorValue* tensor : xs) given.positional.push_back(turns.row_of(tensor));
  const std::vector<Value*> start = given.positional;
  Branch body = trace_branch(in, function, std::move(given), "scan");
  auto* pair = as_sequence(body.result);
  if (!pair || pair->kind != Kind::Tuple || pair->items.size() != 2 || !is_carried_on(in, function, in.item(pair, 0)))
    refuse_control("scan whose function does not return the next carry and an output");
  std::vector<PyObject*> next(body.outputs.begin(), body.outputs.begin() + static_cast<ptrdiff_t>(init.size())),
      rows(body.outputs.begin() + static_cast<ptrdiff_t>(init.size()), body.outputs.end());
  for (size_t i = 0; i < next.size(); ++i)
    if (!TorchTracer::is_alike(in.fake_of(static_cast<TensorValue*>(start[i])), next[i]))
      refuse_control("scan whose carry changes dtype, shape or other metadata");
  turns.arrange(body.part);
  Ref carried = tuple_of(next), outputs = turns.stacked(rows);
  Ref results = Ref::steal(PySequence_Concat(carried.get(), outputs.get()));
  const auto op = graph::ControlOp::Scan;
  const std::vector<PyObject*> taken = turns.taken();
  const bool differentiable = needs_gradients(taken);
  if (differentiable) results = joined_results(in, op, results, taken, "scan");
  add_control(in, "scan", op, {body.part.graph, turns.carried(), turns.rows(), turns.from_elsewhere(), differentiable},
              results.get());
  return Replacement(in, body.outputs, results.get()).of(body.result);
}

Value* run_in_place(Interpreter& in, CallArgs& args) {
  return in.call(args.positional.at(0), arguments({args.positional.begin() + 1, args.positional.end()}));
}

}  // namespace stator::capture
