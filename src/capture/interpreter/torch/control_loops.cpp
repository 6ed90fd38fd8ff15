// Loops as operators: while_loop, map, scan.
#include "capture/interpreter/torch/control_loops.h"

#include <algorithm>
#include <optional>

#include "capture/call/python_node.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/torch/control_nodes.h"
#include "capture/interpreter/torch/parts.h"

namespace stator::capture {
namespace {

/// The same tensor as a value of its own: what the body is handed is not what it may know from elsewhere.
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
  Operands all;
  CallArgs given;
  for (Value* item : in.unpack(carried)) {
    auto* tensor = as<TensorValue>(item);
    if (!tensor) refuse_control("while_loop that carries something else than tensors");
    given.positional.push_back(alias_of(in, tensor));
    all.place_of(in.fake_of(static_cast<TensorValue*>(given.positional.back())));
  }
  const size_t count = all.fakes().size();
  Branch test = trace_branch(in, condition, given, "while_loop"), step = trace_branch(in, body, given, "while_loop");
  if (test.result->kind != Kind::Tensor || !TorchTracer::is_truth(test.outputs[0]))
    refuse_control("while_loop on something else than one bool");
  SequenceValue* carry = in.tuple(given.positional);
  if (step.result->kind != Kind::Tuple || !is_alike(in, step.result, carry))
    refuse_control("while_loop whose body gives something else than it takes");
  Ref test_places = all.places_of(test.part), step_places = all.places_of(step.part);
  if (any_requires_grad(all.fakes())) refuse_control("gradients of while_loop");
  Ref test_graph = graph_object(test.part.graph), step_graph = graph_object(step.part.graph);
  Ref call = Ref::steal(PyObject_CallFunction(known_object("stator.control.Loop"), "OOOOn", test_graph.get(),
                                              test_places.get(), step_graph.get(), step_places.get(),
                                              static_cast<Py_ssize_t>(count)));
  add_node(in, "while_loop", call, all.fakes(), step.part.made.get());
  return step.result;
}

namespace {

/// What a loop takes row by row, and what it hands from one turn to the next.
class Turns {
 public:
  Turns(Interpreter& in, const char* what) : in_(in), what_(what) {}

  /// The tensor as the body gets it: what the first turn starts with.
  Value* carry(TensorValue* tensor) {
    TensorValue* alias = alias_of(in_, tensor);
    all_.place_of(in_.fake_of(alias));
    given_.push_back(in_.fake_of(alias));
    return alias;
  }

  /// The tensor as the body gets it: its first row, which stands for all.
  Value* row_of(TensorValue* tensor) {
    static PyObject* const select = known_object("torch.select");
    TensorValue* alias = alias_of(in_, tensor);
    all_.place_of(in_.fake_of(alias));
    auto here = TorchTracer::length(in_.fake_of(alias));
    if (here < 1 || (length_ && *length_ != here)) throw Break{BreakId::raises, std::string("the rows of ") + what_};
    length_ = here;
    Value* row = in_.call_torch(select, arguments({alias, in_.integer(0), in_.integer(0)}));
    given_.push_back(in_.fake_of(static_cast<TensorValue*>(row)));
    return row;
  }

  /// Where the body's inputs stand: among what it is given, then among what it knows from elsewhere.
  Ref places_of(const TorchTracer::Part& part) {
    Ref places = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(part.inputs.size())));
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      PyObject* input = part.inputs[i].get();
      auto known = std::find(given_.begin(), given_.end(), input);
      size_t place = known == given_.end() ? all_.place_of(input) : static_cast<size_t>(known - given_.begin());
      PyTuple_SET_ITEM(places.get(), static_cast<Py_ssize_t>(i), PyLong_FromSize_t(place));
    }
    return places;
  }

  /// Results that hold what each turn gave.
  Ref stacked(const std::vector<PyObject*>& rows) {
    Ref made = tuple_of(rows);
    Ref results = in_.torch.run_on_fakes([&] {
      return PyObject_CallFunction(known_object("stator.control.stacked"), "On", made.get(), length_.value_or(0));
    });
    if (!results) in_.torch_failed(what_);
    return results;
  }

  bool has_rows() const { return length_.has_value(); }
  const std::vector<PyObject*>& taken() const { return all_.fakes(); }

 private:
  Interpreter& in_;
  const char* what_;
  Operands all_;
  std::vector<PyObject*> given_;  // fakes that the body is called with, in the order of the node's tensors
  std::optional<Py_ssize_t> length_;
};

}  // namespace

Value* map_rows(Interpreter& in, CallArgs& args) {
  Value* rows = args.positional.at(1);
  refuse_inside(in, "map");
  require_tensors(in, rows, "map");
  std::vector<TensorValue*> mapped;
  collect_tensors(in, rows, "map", mapped);
  Turns turns(in, "map");
  std::vector<PyObject*> whole, first;
  for (TensorValue* tensor : mapped) {
    PyObject* fake = in.fake_of(tensor);
    if (std::find(whole.begin(), whole.end(), fake) != whole.end()) refuse_control("map over a tensor twice");
    whole.push_back(fake);
    first.push_back(in.fake_of(static_cast<TensorValue*>(turns.row_of(tensor))));
  }
  if (!turns.has_rows()) throw Break{BreakId::raises, "map over nothing"};
  Ref row_tuple = tuple_of(first);
  CallArgs given = arguments({Replacement(in, whole, row_tuple.get()).of(rows)});
  for (size_t i = 2; i < args.positional.size(); ++i) {
    require_tensors(in, args.positional[i], "map");
    given.positional.push_back(args.positional[i]);
  }
  Branch body = trace_branch(in, args.positional[0], std::move(given), "map");
  Ref places = turns.places_of(body.part);
  // Torch refuses a tensor that is mapped and known to the body, too.
  for (const Ref& input : body.part.inputs)
    if (std::find(whole.begin(), whole.end(), input.get()) != whole.end())
      refuse_control("map over a tensor that its body takes whole");
  if (any_requires_grad(turns.taken())) refuse_control("gradients of map");
  Ref results = turns.stacked(body.outputs);
  Ref graph = graph_object(body.part.graph);
  Ref call = Ref::steal(PyObject_CallFunction(known_object("stator.control.Map"), "OOn", graph.get(), places.get(),
                                              static_cast<Py_ssize_t>(mapped.size())));
  add_node(in, "map", call, turns.taken(), results.get());
  return Replacement(in, body.outputs, results.get()).of(body.result);
}

namespace {

/// The tensors of a list that torch has flattened.
std::vector<TensorValue*> leaves(Interpreter& in, Value* list) {
  std::vector<TensorValue*> tensors;
  for (Value* leaf : in.unpack(list)) tensors.push_back(tensor_of(leaf, "scan with something else than tensors"));
  return tensors;
}

/// What is carried on must be of the structure of what the first turn is given, which torch has left with the function.
bool is_carried_on(Interpreter& in, Value* function, Value* carry) {
  Value* keywords = in.find_attr(function, PyUnicode_InternFromString("keywords"));
  Value* wanted =
      keywords ? in.dict_get(as<DictValue>(keywords), in.constant(PyUnicode_InternFromString("spec_init"))) : nullptr;
  if (!wanted) return false;
  PyObject* flatten = known_object("torch.utils._pytree.tree_flatten");
  Value* flat = in.call(in.wrap(flatten, in.sources().pinned(flatten, "tree_flatten")), arguments({carry}));
  return in.truth(in.compare(Py_EQ, in.get_item(flat, in.integer(1)), wanted));
}

}  // namespace

/// The operator under torch's own scan(): (self, combine_fn, init, xs, additional_inputs) on flat lists, along the
/// first dimension.
Value* scan(Interpreter& in, CallArgs& args) {
  Value *function = args.positional.at(1), *more = argument(args, 4, "additional_inputs");
  if (function->kind != Kind::Object || !more || !in.unpack(more).empty()) refuse_control("scan in a form of its own");
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
    refuse_control("scan whose function gives something else than what is carried on and a result");
  std::vector<PyObject*> next(body.outputs.begin(), body.outputs.begin() + static_cast<ptrdiff_t>(init.size())),
      rows(body.outputs.begin() + static_cast<ptrdiff_t>(init.size()), body.outputs.end());
  for (size_t i = 0; i < next.size(); ++i)
    if (!TorchTracer::is_alike(in.fake_of(static_cast<TensorValue*>(start[i])), next[i]))
      refuse_control("scan that carries on another kind of tensor than it is given");
  Ref places = turns.places_of(body.part);
  Ref carried = tuple_of(next), outputs = turns.stacked(rows);
  Ref results = Ref::steal(PySequence_Concat(carried.get(), outputs.get()));
  const bool joined = is_followed(turns.taken());
  if (joined) results = joined_results(in, results, turns.taken(), "scan");
  Ref graph = graph_object(body.part.graph);
  Ref call = Ref::steal(PyObject_CallFunction(known_object("stator.control.Scan"), "OOnnO", graph.get(), places.get(),
                                              static_cast<Py_ssize_t>(init.size()), static_cast<Py_ssize_t>(xs.size()),
                                              joined ? Py_True : Py_False));
  add_node(in, "scan", call, turns.taken(), results.get());
  return Replacement(in, body.outputs, results.get()).of(body.result);
}

Value* run_in_place(Interpreter& in, CallArgs& args) {
  return in.call(args.positional.at(0), arguments({args.positional.begin() + 1, args.positional.end()}));
}

}  // namespace stator::capture
