#include "capture/interpreter/torch/parts.h"

#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/overrides.h"

namespace stator::capture {
namespace {

void set_grad_mode(bool on) {
  Ref done = Ref::steal(PyObject_CallOneArg(known_object("torch._C._set_grad_enabled"), on ? Py_True : Py_False));
  if (!done) PyErr_Clear();
}

}  // namespace

bool grad_mode() { return Ref::steal(PyObject_CallNoArgs(known_object("torch.is_grad_enabled"))).get() == Py_True; }

GradModeScope::GradModeScope(bool on) : before_(grad_mode()) { set_grad_mode(on); }

GradModeScope::~GradModeScope() { set_grad_mode(before_); }

Value* run_part(Interpreter& in, Value* function, CallArgs args, const std::string& what) {
  struct Assumptions {
    Interpreter& in;
    std::unordered_map<std::string, bool> before;
    ~Assumptions() { in.torch.assumed = std::move(before); }  // assumptions made in the part hold only there
  } assumptions{in, in.torch.assumed};
  EffectLog::ReplayablePart part(in.effects);
  Value* result = in.call(function, std::move(args));
  if (!in.effects.empty()) throw Break{BreakId::mutation, what + " that has side effects"};
  return result;
}

void collect_tensors(Interpreter& in, Value* value, const std::string& what, std::vector<TensorValue*>& tensors,
                     Subclasses subclasses) {
  if (auto* tensor = as<TensorValue>(value)) {
    // The graph of a part makes plain tensors, and no parameters.
    bool is_plain = tensor->type == TorchTracer::tensor_type() || tensor->source;
    bool is_kept = subclasses == Subclasses::Kept && tensor->own.empty() && !tensor->source;
    if (tensor->dispatching || (TorchTracer::is_plain_class(tensor->type) ? !is_plain : !is_kept))
      throw Break{BreakId::tensor_subclass, what + " with a tensor of a subclass"};
    tensors.push_back(tensor);
  } else if (auto* sequence = as_sequence(value)) {
    for (size_t i = 0; i < sequence->items.size(); ++i)
      collect_tensors(in, in.item(sequence, i), what, tensors, subclasses);
  } else if (value->kind == Kind::Dict) {
    for (auto& [key, item] : mapping_items(in, value)) collect_tensors(in, item, what, tensors, subclasses);
  } else if (value->kind != Kind::Constant) {
    throw Break{BreakId::unknown_object, "the result of " + what + ": a " + in.type_of(value)->tp_name};
  }
}

bool requires_grad(Interpreter& in, Value* value) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  auto* tensor = as<TensorValue>(value);
  OverridesDisabled inside(in);
  return tensor && in.truth(in.get_attr(tensor, name));
}

}  // namespace stator::capture
