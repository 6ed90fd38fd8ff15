// Control flow as operators: torch.cond, while_loop, map. Each branch or body is interpreted once and becomes a graph
// of its own; a node runs the one that the data chooses, or one again and again. What torch itself refuses there
// (aliases, writes to arguments, results that differ) is a break, so that it is torch that complains.
#include <algorithm>
#include <map>

#include "capture/call/python_node.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/model.h"
#include "capture/interpreter/overrides.h"
#include "capture/interpreter/parts.h"

namespace stator::capture {
namespace {

struct Branch {
  Value* result = nullptr;
  std::vector<PyObject*> outputs;  // fakes, all made in the branch
  TorchTracer::Part part;
};

[[noreturn]] void refuse(const std::string& what) { throw Break{BreakId::unknown_call, what}; }

/// Only tensors, in tuples, lists and dicts.
void require_tensors(Interpreter& in, Value* value, const std::string& what) {
  if (value->kind == Kind::Tensor) return;
  if (auto* sequence = as_sequence(value)) {
    for (size_t i = 0; i < sequence->items.size(); ++i) require_tensors(in, in.item(sequence, i), what);
  } else if (auto* dict = as<DictValue>(value); dict && dict->type == &PyDict_Type) {
    for (auto& [key, item] : mapping_items(in, value)) require_tensors(in, item, what);
  } else {
    refuse(what + " with something else than tensors");
  }
}

Branch trace(Interpreter& in, Value* function, CallArgs args, const std::string& what) {
  Branch branch;
  const size_t first = in.torch.node_count();
  try {
    branch.result = run_part(in, function, std::move(args), "a branch of " + what);
  } catch (const Raise& raised) {
    throw Break{BreakId::raises, "a branch of " + what + ": " + exception_text(in, raised.exception)};
  }
  require_tensors(in, branch.result, "a branch of " + what);
  std::vector<TensorValue*> tensors;
  collect_tensors(in, branch.result, "a branch of " + what, tensors);
  for (TensorValue* tensor : tensors) branch.outputs.push_back(in.fake_of(tensor));
  branch.part = in.torch.cut(first, branch.outputs);
  if (!branch.part.graph) in.torch_failed(what.c_str());
  if (branch.part.writes) refuse("a branch of " + what + " that writes to its arguments");
  if (branch.part.aliases) refuse("a branch of " + what + " whose results share memory");
  return branch;
}

/// The tensors that a node takes: each once, by its fake.
class Operands {
 public:
  size_t place_of(PyObject* fake) {
    auto found = std::find(fakes_.begin(), fakes_.end(), fake);
    if (found == fakes_.end()) found = fakes_.insert(fakes_.end(), fake);
    return static_cast<size_t>(found - fakes_.begin());
  }
  /// Where the inputs of a part stand among them.
  Ref places_of(const TorchTracer::Part& part) {
    Ref places = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(part.inputs.size())));
    for (size_t i = 0; i < part.inputs.size(); ++i)
      PyTuple_SET_ITEM(places.get(), static_cast<Py_ssize_t>(i), PyLong_FromSize_t(place_of(part.inputs[i].get())));
    return places;
  }
  const std::vector<PyObject*>& fakes() const { return fakes_; }

 private:
  std::vector<PyObject*> fakes_;
};

bool has(PyObject* object, const char* name) {
  Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return value.get() == Py_True;
}

bool any_requires_grad(const std::vector<PyObject*>& fakes) {
  return std::any_of(fakes.begin(), fakes.end(), [](PyObject* fake) { return has(fake, "requires_grad"); });
}

bool is_grad_enabled() {
  Ref on = Ref::steal(PyObject_CallNoArgs(known_object("torch.is_grad_enabled")));
  return on.get() == Py_True;
}

/// The same structure of tuples, lists and dicts, with tensors of the same kind at its ends.
bool is_alike(Interpreter& in, Value* a, Value* b) {
  if (a->kind != b->kind) return false;
  if (a->kind == Kind::Tensor)
    return TorchTracer::is_alike(in.fake_of(static_cast<TensorValue*>(a)), in.fake_of(static_cast<TensorValue*>(b)));
  if (auto* sequence = as_sequence(a)) {
    auto* other = as_sequence(b);
    if (sequence->type != other->type || sequence->items.size() != other->items.size()) return false;
    for (size_t i = 0; i < sequence->items.size(); ++i)
      if (!is_alike(in, in.item(sequence, i), in.item(other, i))) return false;
    return true;
  }
  auto left = mapping_items(in, a), right = mapping_items(in, b);
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i)
    if (!in.truth(in.compare(Py_EQ, left[i].first, right[i].first)) || !is_alike(in, left[i].second, right[i].second))
      return false;
  return true;
}

/// The result with other fakes in the places of `outputs`.
class Replacement {
 public:
  Replacement(Interpreter& in, const std::vector<PyObject*>& outputs, PyObject* results) : in_(in) {
    for (size_t i = 0; i < outputs.size(); ++i)
      fakes_[outputs[i]] = PyTuple_GET_ITEM(results, static_cast<Py_ssize_t>(i));
  }

  Value* of(Value* value) {
    if (auto* tensor = as<TensorValue>(value)) return in_.wrap_result(fakes_.at(in_.fake_of(tensor)));
    if (auto* sequence = as_sequence(value)) {
      auto* made = in_.arena.make<SequenceValue>(sequence->kind, sequence->type);
      for (size_t i = 0; i < sequence->items.size(); ++i) made->items.push_back(of(in_.item(sequence, i)));
      return made;
    }
    DictValue* made = in_.dict();
    for (auto& [key, item] : mapping_items(in_, value)) in_.dict_set(made, key, of(item));
    return made;
  }

 private:
  Interpreter& in_;
  std::map<PyObject*, PyObject*> fakes_;
};

void add_node(Interpreter& in, const char* what, const Ref& call, const std::vector<PyObject*>& tensors,
              PyObject* results) {
  if (!call) throw Break{BreakId::internal, take_error_text()};
  in.locate();
  if (!in.torch.add_call(call.get(), tensors, results, true)) in.torch_failed(what);
}

void refuse_inside(Interpreter& in, const char* what) {
  if (in.in_transform) refuse(std::string(what) + " inside of a transform");
  if (has_active_mode(in)) refuse(std::string(what) + " under a torch-function mode");
}

Ref tuple_of(const std::vector<PyObject*>& items, size_t first = 0) {
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size() - first)));
  for (size_t i = first; i < items.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i - first), Py_NewRef(items[i]));
  return made;
}

// ---- torch.cond

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
  if (!chooser || !TorchTracer::is_truth(in.fake_of(chooser))) refuse("torch.cond on something else than one bool");
  for (Value* operand : given.positional) require_tensors(in, operand, "torch.cond");
  Branch taken = trace(in, yes, given, "torch.cond"), other = trace(in, no, given, "torch.cond");
  if (!is_alike(in, taken.result, other.result)) refuse("torch.cond whose branches give results of different kinds");

  Operands all;
  Ref taken_places = all.places_of(taken.part), other_places = all.places_of(other.part);
  const bool joined = is_grad_enabled() && any_requires_grad(all.fakes());
  Ref results = taken.part.made;
  if (joined) {
    auto is_differentiable = [](PyObject* fake) { return TorchTracer::is_differentiable(fake); };
    if (!std::all_of(taken.outputs.begin(), taken.outputs.end(), is_differentiable))
      refuse("gradients of torch.cond with results that have none");
    Ref made = tuple_of(taken.outputs), taken_from = tuple_of(all.fakes());
    results = in.torch.run_on_fakes([&] {
      return PyObject_CallFunctionObjArgs(known_object("stator.control.join"), made.get(), taken_from.get(), nullptr);
    });
    if (!results) in.torch_failed("cond");
  }
  Ref yes_graph = graph_object(taken.part.graph), no_graph = graph_object(other.part.graph);
  Ref call = Ref::steal(PyObject_CallFunctionObjArgs(known_object("stator.control.Cond"), yes_graph.get(),
                                                     taken_places.get(), no_graph.get(), other_places.get(),
                                                     joined ? Py_True : Py_False, nullptr));
  std::vector<PyObject*> tensors{in.fake_of(chooser)};
  tensors.insert(tensors.end(), all.fakes().begin(), all.fakes().end());
  add_node(in, "cond", call, tensors, results.get());
  return joined ? Replacement(in, taken.outputs, results.get()).of(taken.result) : taken.result;
}

// ---- loops

Value* while_loop(Interpreter& in, CallArgs& args) {
  Value *condition = argument(args, 0, "cond_fn"), *body = argument(args, 1, "body_fn");
  Value* carried = argument(args, 2, "carried_inputs");
  if (!condition || !body || !carried) throw Break{BreakId::raises, "while_loop is called with wrong arguments"};
  refuse_inside(in, "while_loop");
  Operands all;
  CallArgs given = arguments(in.unpack(carried));
  for (Value* item : given.positional) {
    auto* tensor = as<TensorValue>(item);
    if (!tensor) refuse("while_loop that carries something else than tensors");
    const size_t count = all.fakes().size();
    if (all.place_of(in.fake_of(tensor)) != count) refuse("while_loop that carries a tensor twice");
  }
  const size_t count = all.fakes().size();
  Branch test = trace(in, condition, given, "while_loop"), step = trace(in, body, given, "while_loop");
  if (test.result->kind != Kind::Tensor || !TorchTracer::is_truth(test.outputs[0]))
    refuse("while_loop on something else than one bool");
  SequenceValue* carry = in.tuple(given.positional);
  if (step.result->kind != Kind::Tuple || !is_alike(in, step.result, carry))
    refuse("while_loop whose body gives something else than it takes");
  Ref test_places = all.places_of(test.part), step_places = all.places_of(step.part);
  if (any_requires_grad(all.fakes())) refuse("gradients of while_loop");
  Ref test_graph = graph_object(test.part.graph), step_graph = graph_object(step.part.graph);
  Ref call = Ref::steal(PyObject_CallFunction(known_object("stator.control.Loop"), "OOOOn", test_graph.get(),
                                              test_places.get(), step_graph.get(), step_places.get(),
                                              static_cast<Py_ssize_t>(count)));
  add_node(in, "while_loop", call, all.fakes(), step.part.made.get());
  return step.result;
}

Value* map(Interpreter& in, CallArgs& args) {
  Value* rows = args.positional.at(1);
  refuse_inside(in, "map");
  require_tensors(in, rows, "map");
  std::vector<TensorValue*> mapped;
  collect_tensors(in, rows, "map", mapped);
  std::optional<Py_ssize_t> length;
  Operands all;
  for (TensorValue* tensor : mapped) {
    const size_t count = all.fakes().size();
    if (all.place_of(in.fake_of(tensor)) != count) refuse("map over a tensor twice");
    auto rows_here = TorchTracer::length(in.fake_of(tensor));
    if (rows_here < 1 || (length && *length != rows_here)) throw Break{BreakId::raises, "the rows of map"};
    length = rows_here;
  }
  if (!length) throw Break{BreakId::raises, "map over nothing"};
  // One row of each stands for all.
  Ref select = Ref::borrow(known_object("torch.select"));
  std::vector<PyObject*> row_fakes;
  std::vector<Ref> owned;
  for (TensorValue* tensor : mapped) {
    Value* row = in.call_torch(select.get(), arguments({tensor, in.integer(0), in.integer(0)}));
    owned.push_back(Ref::borrow(in.fake_of(static_cast<TensorValue*>(row))));
    row_fakes.push_back(owned.back().get());
  }
  std::vector<PyObject*> mapped_fakes = all.fakes();
  Ref row_tuple = tuple_of(row_fakes);
  CallArgs given = arguments({Replacement(in, mapped_fakes, row_tuple.get()).of(rows)});
  for (size_t i = 2; i < args.positional.size(); ++i) {
    require_tensors(in, args.positional[i], "map");
    given.positional.push_back(args.positional[i]);
  }
  Branch body = trace(in, args.positional[0], std::move(given), "map");
  // A place below the number of mapped tensors is a row.
  Ref places = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(body.part.inputs.size())));
  for (size_t i = 0; i < body.part.inputs.size(); ++i) {
    PyObject* input = body.part.inputs[i].get();
    auto row = std::find(row_fakes.begin(), row_fakes.end(), input);
    // The same tensor may be known to the body whole, too.
    if (row == row_fakes.end() && std::find(mapped_fakes.begin(), mapped_fakes.end(), input) != mapped_fakes.end())
      refuse("map over a tensor that its body takes whole");
    size_t place = row == row_fakes.end() ? all.place_of(input) : static_cast<size_t>(row - row_fakes.begin());
    PyTuple_SET_ITEM(places.get(), static_cast<Py_ssize_t>(i), PyLong_FromSize_t(place));
  }
  if (any_requires_grad(all.fakes())) refuse("gradients of map");
  Ref made = tuple_of(body.outputs);
  Ref results = in.torch.run_on_fakes(
      [&] { return PyObject_CallFunction(known_object("stator.control.stacked"), "On", made.get(), *length); });
  if (!results) in.torch_failed("map");
  Ref graph = graph_object(body.part.graph);
  Ref call = Ref::steal(PyObject_CallFunction(known_object("stator.control.Map"), "OOn", graph.get(), places.get(),
                                              static_cast<Py_ssize_t>(mapped.size())));
  add_node(in, "map", call, all.fakes(), results.get());
  return Replacement(in, body.outputs, results.get()).of(body.result);
}

constexpr ModelRow kRows[] = {
    {"torch._higher_order_ops.cond.cond", cond, 1, 4, "pred true_fn false_fn operands"},
    {"torch._higher_order_ops.while_loop.while_loop", while_loop, 0, 3, "cond_fn body_fn carried_inputs"},
    {"torch._higher_order_ops.map.map", map, 2},
};

}  // namespace

std::span<const ModelRow> control_models() { return kRows; }

}  // namespace stator::capture
