#include "capture/interpreter/torch/control_nodes.h"

#include <algorithm>

#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/parts.h"

namespace stator::capture {

void refuse_control(const std::string& what) { throw Break{BreakId::unknown_call, what}; }

void refuse_inside(Interpreter& in, const char* what) {
  if (in.frames.in_transform()) refuse_control(std::string(what) + " inside of a transform");
  if (has_active_mode(in)) refuse_control(std::string(what) + " under a torch-function mode");
}

void require_tensors(Interpreter& in, Value* value, const std::string& what) {
  if (value->kind == Kind::Tensor) return;
  if (auto* sequence = as_sequence(value)) {
    for (size_t i = 0; i < sequence->items.size(); ++i) require_tensors(in, in.item(sequence, i), what);
  } else if (auto* dict = as<DictValue>(value); dict && dict->type == &PyDict_Type) {
    for (auto& [key, item] : mapping_items(in, value)) require_tensors(in, item, what);
  } else {
    refuse_control(what + " with something else than tensors");
  }
}

/// The node gives plain tensors, whatever class those of the branch have.
static void make_plain(Interpreter& in, Value* value) {
  if (auto* tensor = as<TensorValue>(value)) {
    if (tensor->source || tensor->type == TorchTracer::tensor_type()) return;
    if (!tensor->own.empty()) throw Break{BreakId::tensor_subclass, "a branch that sets attributes of its result"};
    tensor->type = TorchTracer::tensor_type();
  } else if (auto* sequence = as_sequence(value)) {
    for (size_t i = 0; i < sequence->items.size(); ++i) make_plain(in, in.item(sequence, i));
  } else if (value->kind == Kind::Dict) {
    for (auto& [key, item] : mapping_items(in, value)) make_plain(in, item);
  }
}

Branch trace_branch(Interpreter& in, Value* function, CallArgs args, const std::string& what, bool gives_plain) {
  Branch branch;
  const size_t first = in.torch.tracer.node_count();
  try {
    branch.result = run_part(in, function, std::move(args), "a branch of " + what);
  } catch (const Raise& raised) {
    throw Break{BreakId::raises, "a branch of " + what + ": " + exception_text(in, raised.exception)};
  }
  require_tensors(in, branch.result, "a branch of " + what);
  if (gives_plain) make_plain(in, branch.result);
  std::vector<TensorValue*> tensors;
  collect_tensors(in, branch.result, "a branch of " + what, tensors);
  for (TensorValue* tensor : tensors) branch.outputs.push_back(in.fake_of(tensor));
  branch.part = in.torch.tracer.cut(first, branch.outputs);
  if (!branch.part.graph) in.torch.fail(what.c_str());
  if (!branch.part.written.empty()) refuse_control("a branch of " + what + " that writes to its arguments");
  if (branch.part.aliases) refuse_control("a branch of " + what + " whose results share memory");
  return branch;
}

void SubgraphInputs::add(const TorchTracer::Part& part) {
  auto is_in = [](const std::vector<PyObject*>& fakes, PyObject* fake) {
    return std::find(fakes.begin(), fakes.end(), fake) != fakes.end();
  };
  for (const Ref& input : part.inputs)
    if (!is_in(given_, input.get()) && !is_in(from_elsewhere_, input.get())) from_elsewhere_.push_back(input.get());
}

void SubgraphInputs::arrange(TorchTracer::Part& part) const {
  std::vector<PyObject*> all = given_;
  all.insert(all.end(), from_elsewhere_.begin(), from_elsewhere_.end());
  TorchTracer::arrange_inputs(part, all);
}

bool any_requires_grad(const std::vector<PyObject*>& fakes) {
  return std::any_of(fakes.begin(), fakes.end(), [](PyObject* fake) { return is_true_of(fake, "requires_grad"); });
}

bool needs_gradients(const std::vector<PyObject*>& fakes) { return grad_mode() && any_requires_grad(fakes); }

Ref joined_results(Interpreter& in, graph::ControlOp op, const Ref& made, const std::vector<PyObject*>& taken,
                   const char* what) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made.get()); ++i)
    if (!TorchTracer::is_differentiable(PyTuple_GET_ITEM(made.get(), i)))
      refuse_control(std::string("gradients of ") + what + " with results that have none");
  Ref results = in.torch.tracer.join_gradients(op, made.get(), taken);
  if (!results) in.torch.fail(what);
  return results;
}

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

Replacement::Replacement(Interpreter& in, const std::vector<PyObject*>& outputs, PyObject* results) : in_(in) {
  for (size_t i = 0; i < outputs.size(); ++i)
    fakes_[outputs[i]] = PyTuple_GET_ITEM(results, static_cast<Py_ssize_t>(i));
}

Value* Replacement::of(Value* value) {
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

void add_control(Interpreter& in, const char* what, graph::ControlOp op,
                 const std::vector<TorchTracer::ControlOperand>& operands, PyObject* results) {
  in.torch.locate();
  if (!in.torch.tracer.add_control(op, operands, results)) in.torch.fail(what);
}

Ref tuple_of(const std::vector<PyObject*>& items) {
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  return made;
}

}  // namespace stator::capture
