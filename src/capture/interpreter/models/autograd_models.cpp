// torch.autograd.Function: its forward is interpreted like any call, and a node attaches its backward to the results.
#include <algorithm>
#include <unordered_set>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/backward_reads.h"
#include "capture/interpreter/torch/checkpoints.h"
#include "capture/interpreter/torch/hooks.h"
#include "capture/interpreter/torch/made_functions.h"
#include "capture/interpreter/torch/parts.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }

/// The values that a node gets, with each tensor replaced by a slot number. Each tensor is passed once.
class Template {
 public:
  Template(Interpreter& in, const Value* output) : in_(in), output_(output) {}

  /// The value with slots in place of its tensors. Mutable containers are copied for each call, so no other code may
  /// have a reference to them.
  Ref of(Value* value, const std::string& what) {
    if (auto* tensor = as<TensorValue>(value)) return slot(tensor);
    if (PyObject* constant = in_.constant_of(value)) return Ref::borrow(constant);
    if (value->kind == Kind::List || value->kind == Kind::Dict) return container(value, what);
    auto* sequence = value->kind == Kind::Tuple ? static_cast<SequenceValue*>(value) : nullptr;
    if (sequence && sequence->type == &PyTuple_Type) {
      Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(sequence->items.size())));
      for (size_t i = 0; i < sequence->items.size(); ++i)
        PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), of(in_.item(sequence, i), what).release());
      return made;
    }
    Ref literal = sequence && sequence->type == size_type() ? in_.literal_of(value) : Ref();
    if (!literal) throw Break{BreakId::unknown_object, what + ": a " + in_.type_of(value)->tp_name};
    return literal;
  }

  Ref slot(TensorValue* tensor) {
    // A graph does not store the class of a tensor that it makes; an input is the program's own object.
    if (tensor->type != TorchTracer::tensor_type() && !tensor->source)
      throw Break{BreakId::tensor_subclass, "an autograd function gets a tensor of a subclass"};
    return any_slot(tensor);
  }

  /// The results of forward. Torch only counts those that are not tensors.
  Ref of_outputs(Value* output) {
    if (auto* tensor = as<TensorValue>(output)) return result_slot(tensor);
    std::vector<Value*> items = in_.unpack(output);
    Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (size_t i = 0; i < items.size(); ++i) {
      auto* tensor = as<TensorValue>(items[i]);
      Ref item = tensor ? result_slot(tensor) : Ref::borrow(Py_None);
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return made;
  }

  const std::vector<PyObject*>& tensors() const { return tensors_; }

 private:
  Ref any_slot(TensorValue* tensor) {
    auto found = std::find(tensors_.begin(), tensors_.end(), in_.fake_of(tensor));
    auto index = found - tensors_.begin();
    if (found == tensors_.end()) tensors_.push_back(in_.fake_of(tensor));
    return Ref::steal(PyObject_CallFunction(known_object("stator.functions.Slot"), "n", index));
  }

  /// A result: what the program sees of it gets its class again.
  Ref result_slot(TensorValue* tensor) {
    if (!tensor->own.empty())
      throw Break{BreakId::tensor_subclass, "an autograd function returns a tensor with attributes of its own"};
    // Torch makes a view of an input that is returned, which the class may override.
    const bool is_plain = tensor->type == TorchTracer::tensor_type() || tensor->type == TorchTracer::parameter_type();
    if (tensor->source && !is_plain)
      throw Break{BreakId::tensor_subclass, "an autograd function returns an input of a subclass"};
    return any_slot(tensor);
  }

  Ref container(Value* value, const std::string& what) {
    const PyTypeObject* type = in_.type_of(value);
    const bool is_own = !value->source && (type == &PyList_Type || type == &PyDict_Type) &&
                        !in_.lifetimes.is_reachable(in_.frames.current(), value, output_) &&
                        containers_.insert(value).second;
    if (!is_own) throw Break{BreakId::unknown_object, what + ": a " + type->tp_name + " that other code can reach"};
    if (value->kind == Kind::List) {
      Ref made = Ref::steal(PyList_New(0));
      for (Value* item : in_.unpack(value)) PyList_Append(made.get(), of(item, what).get());
      return made;
    }
    Ref made = Ref::steal(PyDict_New());
    for (auto& [key, item] : mapping_items(in_, value)) {
      PyObject* constant = in_.constant_of(key);
      if (!constant) throw Break{BreakId::unknown_object, what + ": a dict with keys that are not constants"};
      PyDict_SetItem(made.get(), constant, of(item, what).get());
    }
    return made;
  }

  Interpreter& in_;
  const Value* output_;
  std::unordered_set<const Value*> containers_;
  std::vector<PyObject*> tensors_;  // fakes
};

ObjectValue* new_context(Interpreter& in, const std::vector<Value*>& inputs) {
  auto* type = reinterpret_cast<PyTypeObject*>(known_object("stator.functions.TracedContext"));
  auto* context = as<ObjectValue>(in.instantiate(type, {}));
  std::vector<Value*> needs;
  for (Value* input : inputs) needs.push_back(in.boolean(requires_grad(in, input)));
  in.set_attr(context, name("needs_input_grad"), in.tuple(std::move(needs)));
  return context;
}

/// Whether the function defines setup_context, so that forward gets no context.
bool has_setup(Interpreter& in, Value* function) {
  static PyObject* const no_setup = known_object("torch.autograd.function._SingleLevelFunction.setup_context");
  auto* setup = as<FunctionValue>(in.get_attr(function, name("setup_context")));
  return !setup || setup->function.get() != no_setup;
}

/// The arguments as torch passes them to forward: keywords become positional, by the parameter names. With a
/// setup_context, defaults are filled in.
std::vector<Value*> bound_inputs(Interpreter& in, Value* function, const CallArgs& args, bool with_setup) {
  std::vector<Value*> inputs(args.positional.begin() + 1, args.positional.end());
  auto* forward = as<FunctionValue>(in.get_attr(function, name("forward")));
  if (args.keywords.empty() && !with_setup) return inputs;
  if (!forward || forward->code->co_argcount < 1 || forward->code->co_kwonlyargcount ||
      (with_setup && in.find_attr(forward, name("__wrapped__"))) ||
      (with_setup && in.find_attr(forward, name("__signature__"))))
    throw Break{BreakId::unknown_call, "an autograd function whose forward takes keyword-only arguments"};
  const size_t skipped = with_setup ? 0 : 1, count = static_cast<size_t>(forward->code->co_argcount) - skipped;
  const bool takes_more = forward->code->co_flags & CO_VARARGS;
  if (inputs.size() > count && !(takes_more && args.keywords.empty()))
    throw Break{BreakId::raises, "an autograd function is called with too many arguments"};
  const size_t given = inputs.size();
  if (inputs.size() < count) inputs.resize(count, nullptr);
  Ref names = Ref::steal(PyCode_GetVarnames(forward->code));
  for (auto& [key, value] : args.keywords) {
    size_t place = given;
    while (place < count && PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), place + skipped), key.get()) != 0) ++place;
    if (place == count) throw Break{BreakId::raises, "an autograd function is called with an unknown keyword"};
    inputs[place] = value;
  }
  if (with_setup && std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end()) {
    Value* defaults = in.get_attr(forward, name("__defaults__"));
    std::vector<Value*> values = in.is_same(defaults, in.none()) ? std::vector<Value*>{} : in.unpack(defaults);
    for (size_t i = 0; i < count; ++i)
      if (!inputs[i] && i + values.size() >= count) inputs[i] = values[i + values.size() - count];
  }
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  if (std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end() || (with_setup && inputs.size() < count))
    throw Break{BreakId::unknown_call, "an autograd function is called with gaps between its arguments"};
  return inputs;
}

/// Runs the function's forward, in either of its two forms.
Value* run_forward(Interpreter& in, Value* function, ObjectValue* context, const std::vector<Value*>& inputs,
                   bool with_setup) {
  Value* forward = in.get_attr(function, name("forward"));
  if (!with_setup) {
    CallArgs args = arguments({context});
    args.positional.insert(args.positional.end(), inputs.begin(), inputs.end());
    return in.call(forward, std::move(args));
  }
  Value* output = in.call(forward, arguments(inputs));
  in.call(in.get_attr(function, name("setup_context")), arguments({context, in.tuple(inputs), output}));
  return output;
}

/// All attributes that forward has set on its context, as templates.
Ref context_template(Interpreter& in, ObjectValue* context, Template& made) {
  Ref dict = Ref::steal(PyDict_New());
  for (auto& [key, value] : mapping_items(in, context->own)) {
    PyObject* attribute = static_cast<ConstantValue*>(key)->object.get();
    if (PyUnicode_CompareWithASCIIString(attribute, "needs_input_grad") == 0) continue;
    Ref part = made.of(value, "kept for backward as ctx." + text_of(attribute));
    PyDict_SetItem(dict.get(), attribute, part.get());
  }
  return dict;
}

/// The output of forward, with its tensors replaced by the tensors that the node returns.
Value* replaced(Interpreter& in, Value* output, PyObject* results) {
  Py_ssize_t taken = 0;
  auto next = [&](Value* before) {
    Value* made = in.wrap_result(PyTuple_GET_ITEM(results, taken++));
    // Torch returns the object that forward made, but a new one for an input that it returns.
    if (auto* tensor = as<TensorValue>(made); tensor && !tensor->source && !before->source)
      tensor->type = static_cast<TensorValue*>(before)->type;
    return made;
  };
  if (output->kind == Kind::Tensor) return next(output);
  auto* outputs = as_sequence(output);
  std::vector<Value*> items;
  for (size_t i = 0; outputs && i < outputs->items.size(); ++i) {
    Value* item = in.item(outputs, i);
    items.push_back(item->kind == Kind::Tensor ? next(item) : item);
  }
  return in.tuple(std::move(items));
}

/// Whether the node would return forward's own tensors: then the graph needs no node.
bool changes_nothing(Interpreter& in, Value* output, PyObject* results) {
  std::vector<Value*> outputs{output};
  if (auto* sequence = as_sequence(output)) outputs = in.unpack(sequence);
  Py_ssize_t taken = 0;
  for (Value* value : outputs) {
    auto* tensor = as<TensorValue>(value);
    if (!tensor) continue;
    if (in.fake_of(tensor) != PyTuple_GET_ITEM(results, taken++) || requires_grad(in, tensor)) return false;
  }
  return true;
}

/// Whether a subclass can be made without running the program's code; the node needs one.
bool has_plain_subclasses(PyObject* function) {
  static PyTypeObject* const meta =
      reinterpret_cast<PyTypeObject*>(known_object("torch.autograd.function.FunctionMeta"));
  return Py_IS_TYPE(function, meta);
}

Value* apply(Interpreter& in, CallArgs& args) {
  Value* function = args.positional.at(0);
  PyObject* type = in.constant_of(function);
  if (in.frames.in_transform()) throw Break{BreakId::unknown_call, "an autograd function inside a transform"};
  if (!type) throw Break{BreakId::unknown_call, "an autograd function that is not known"};
  if (!has_plain_subclasses(type)) throw Break{BreakId::unknown_call, "an autograd function with a custom metaclass"};
  Ref lasting;
  if (const Prototype* made = in.prototypes.find(type)) type = (lasting = lasting_function(in, *made)).get();
  const bool with_setup = has_setup(in, function);
  const std::vector<Value*> inputs = bound_inputs(in, function, args, with_setup);
  ObjectValue* context = new_context(in, inputs);
  Value* output = nullptr;
  {
    GradModeScope off(false);
    output = run_forward(in, function, context, inputs, with_setup);
  }
  if (output->kind != Kind::Tensor && !(output->kind == Kind::Tuple && in.type_of(output) == &PyTuple_Type))
    throw Break{BreakId::unknown_call, "an autograd function that returns something other than tensors"};
  Template made(in, output);
  Ref given = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto* tensor = as<TensorValue>(inputs[i]);
    Ref part = tensor ? made.slot(tensor) : Ref::borrow(Py_None);
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), part.release());
  }
  Ref outputs = made.of_outputs(output);
  Ref kept = context_template(in, context, made);
  Ref why_open = in.options.for_python_backend ? guard_backward(in, function, type, kept.get()) : Ref::borrow(Py_None);
  Ref call = Ref::steal(PyObject_CallFunctionObjArgs(known_object("stator.functions.FunctionCall"), type, given.get(),
                                                     outputs.get(), kept.get(), why_open.get(), nullptr));
  in.torch.locate();
  const auto& tensors = made.tensors();
  Ref results = in.torch.tracer.run_on_fakes(
      [&] { return PyObject_Vectorcall(call.get(), tensors.data(), tensors.size(), nullptr); });
  if (!results) in.torch.fail("apply");
  if (changes_nothing(in, output, results.get())) return output;
  if (!in.torch.tracer.add_call(call.get(), tensors, results.get(), CallNode::Pure)) in.torch.fail("apply");
  return replaced(in, output, results.get());
}

/// One break at the program's own call, not one for each step of torch's Python code below it.
Value* run_backward(Interpreter&, CallArgs&) { throw Break{BreakId::backward, ""}; }

constexpr ModelRow kRows[] = {
    {"torch.Tensor.backward", run_backward, 0, ModelRow::kAny, "*", true},
    {"torch.autograd.backward", run_backward, 0, ModelRow::kAny, "*", true},
    {"torch.autograd.grad", run_backward, 0, ModelRow::kAny, "*", true},
    {"torch.Tensor.register_hook", register_hook, 2, 2, "", true},
    {"torch.Tensor.register_post_accumulate_grad_hook", register_post_accumulate_hook, 2, 2, "", true},
    {"torch._C.TensorBase.retain_grad", retain_grad, 1, 1},
    {"torch.utils.hooks.RemovableHandle.remove", remove_hook, 1, 1},
    {"torch.utils.hooks.RemovableHandle.__enter__", enter_handle, 1, 1},
    {"torch.utils.hooks.RemovableHandle.__exit__", remove_hook, 4, 4},
    {"torch.utils.checkpoint.checkpoint", checkpoint, 1, ModelRow::kAny, "*"},
    {"torch.autograd.function.Function.apply.__func__", apply, 1, ModelRow::kAny, "*"},
};

}  // namespace

std::span<const ModelRow> autograd_models() { return kRows; }

}  // namespace stator::capture
