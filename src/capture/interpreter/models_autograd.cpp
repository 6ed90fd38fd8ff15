// Autograd's own features. torch.autograd.Function: its forward is interpreted like any call; a node gives the results
// its backward. Hooks on tensors: called by the plan when it ends. Checkpoints: a part of the graph on its own.
#include <algorithm>

#include "capture/call/python_node.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/model.h"
#include "capture/interpreter/overrides.h"
#include "capture/interpreter/parts.h"
#include "capture/interpreter/tensor_attributes.h"

namespace stator::capture {
namespace {

/// The ambient grad mode, for as long as this lives.
class GradModeOff {
 public:
  GradModeOff() : before_(Ref::steal(PyObject_CallNoArgs(known_object("torch.is_grad_enabled")))) { set(Py_False); }
  ~GradModeOff() { set(before_.get()); }
  GradModeOff(const GradModeOff&) = delete;
  GradModeOff& operator=(const GradModeOff&) = delete;

 private:
  static void set(PyObject* on) {
    Ref done = Ref::steal(PyObject_CallOneArg(known_object("torch._C._set_grad_enabled"), on));
    if (!done) PyErr_Clear();
  }
  Ref before_;
};

PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }

/// What is handed to the node: each tensor once, by the place where it stands.
class Template {
 public:
  explicit Template(Interpreter& in) : in_(in) {}

  /// The value with slots for its tensors. Only what cannot be changed is taken, so that it can be shared by calls.
  Ref of(Value* value, const std::string& what) {
    if (auto* tensor = as<TensorValue>(value)) return slot(tensor);
    if (PyObject* constant = in_.constant_of(value)) return Ref::borrow(constant);
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
    // In a graph a tensor that was made there is of no class.
    bool known =
        tensor->type == TorchTracer::tensor_type() || (tensor->source && tensor->type == TorchTracer::parameter_type());
    if (!known) throw Break{BreakId::tensor_subclass, "a function of autograd is given a tensor of a subclass"};
    auto found = std::find(tensors_.begin(), tensors_.end(), in_.fake_of(tensor));
    auto index = found - tensors_.begin();
    if (found == tensors_.end()) tensors_.push_back(in_.fake_of(tensor));
    return Ref::steal(PyObject_CallFunction(known_object("stator.functions.Slot"), "n", index));
  }

  const std::vector<PyObject*>& tensors() const { return tensors_; }

 private:
  Interpreter& in_;
  std::vector<PyObject*> tensors_;  // fakes
};

bool requires_grad(Interpreter& in, Value* value) {
  auto* tensor = as<TensorValue>(value);
  Plainly inside(in);
  return tensor && in.truth(in.get_attr(tensor, name("requires_grad")));
}

ObjectValue* new_context(Interpreter& in, const std::vector<Value*>& inputs) {
  auto* type = reinterpret_cast<PyTypeObject*>(known_object("stator.functions.TracedContext"));
  auto* context = as<ObjectValue>(in.instantiate(type, {}));
  std::vector<Value*> needs;
  for (Value* input : inputs) needs.push_back(in.boolean(requires_grad(in, input)));
  in.set_attr(context, name("needs_input_grad"), in.tuple(std::move(needs)));
  return context;
}

/// Runs the function's forward, in either of its two forms.
Value* run_forward(Interpreter& in, Value* function, ObjectValue* context, const std::vector<Value*>& inputs) {
  static PyObject* const no_setup = known_object("torch.autograd.function._SingleLevelFunction.setup_context");
  Value* forward = in.get_attr(function, name("forward"));
  Value* setup = in.get_attr(function, name("setup_context"));
  auto* setup_function = as<FunctionValue>(setup);
  if (setup_function && setup_function->function.get() == no_setup) {
    CallArgs args = arguments({context});
    args.positional.insert(args.positional.end(), inputs.begin(), inputs.end());
    return in.call(forward, std::move(args));
  }
  auto* code = as<FunctionValue>(forward);
  if (!code || static_cast<size_t>(code->code->co_argcount) != inputs.size() || code->code->co_kwonlyargcount)
    throw Break{BreakId::unknown_call, "a function of autograd whose forward has defaults"};
  Value* output = in.call(forward, arguments(inputs));
  in.call(setup, arguments({context, in.tuple(inputs), output}));
  return output;
}

/// Everything that forward has set on its context, as it is to be set again.
Ref context_template(Interpreter& in, ObjectValue* context, Template& made) {
  Ref dict = Ref::steal(PyDict_New());
  for (auto& [key, value] : mapping_items(in, context->own)) {
    PyObject* attribute = static_cast<ConstantValue*>(key)->object.get();
    if (PyUnicode_CompareWithASCIIString(attribute, "needs_input_grad") == 0) continue;
    Ref part = made.of(value, std::string("kept for backward as ctx.") + PyUnicode_AsUTF8(attribute));
    PyDict_SetItem(dict.get(), attribute, part.get());
  }
  return dict;
}

/// The results of the call that are tensors take the places of those of forward.
Value* replaced(Interpreter& in, Value* output, PyObject* results) {
  Py_ssize_t taken = 0;
  auto next = [&] { return in.wrap_result(PyTuple_GET_ITEM(results, taken++)); };
  if (output->kind == Kind::Tensor) return next();
  auto* outputs = as_sequence(output);
  std::vector<Value*> items;
  for (size_t i = 0; outputs && i < outputs->items.size(); ++i) {
    Value* item = in.item(outputs, i);
    items.push_back(item->kind == Kind::Tensor ? next() : item);
  }
  return in.tuple(std::move(items));
}

/// Whether the call made nothing but what forward gave: then a graph needs no node for it.
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

/// The node is made of a subclass, and making one must not run code of the program.
bool has_plain_subclasses(PyObject* function) {
  static PyTypeObject* const meta =
      reinterpret_cast<PyTypeObject*>(known_object("torch.autograd.function.FunctionMeta"));
  return Py_IS_TYPE(function, meta);
}

Value* apply(Interpreter& in, CallArgs& args) {
  Value* function = args.positional.at(0);
  PyObject* type = in.constant_of(function);
  if (in.in_transform) throw Break{BreakId::unknown_call, "a function of autograd inside of a transform"};
  if (!type || !args.keywords.empty()) throw Break{BreakId::unknown_call, "a function of autograd with keywords"};
  if (!has_plain_subclasses(type))
    throw Break{BreakId::unknown_call, "a function of autograd with a metaclass of its own"};
  std::vector<Value*> inputs(args.positional.begin() + 1, args.positional.end());
  ObjectValue* context = new_context(in, inputs);
  Value* output = nullptr;
  {
    GradModeOff off;
    output = run_forward(in, function, context, inputs);
  }
  if (output->kind != Kind::Tensor && !(output->kind == Kind::Tuple && in.type_of(output) == &PyTuple_Type))
    throw Break{BreakId::unknown_call, "a function of autograd that gives something else than tensors"};
  Template made(in);
  Ref given = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto* tensor = as<TensorValue>(inputs[i]);
    Ref part = tensor ? made.slot(tensor) : Ref::borrow(Py_None);
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), part.release());
  }
  Ref outputs = made.of(output, "a result of a function of autograd");
  Ref kept = context_template(in, context, made);
  Ref call = Ref::steal(PyObject_CallFunctionObjArgs(known_object("stator.functions.FunctionCall"), type, given.get(),
                                                     outputs.get(), kept.get(), nullptr));
  in.locate();
  const auto& tensors = made.tensors();
  Ref results =
      in.torch.run_on_fakes([&] { return PyObject_Vectorcall(call.get(), tensors.data(), tensors.size(), nullptr); });
  if (!results) in.torch_failed("apply");
  if (changes_nothing(in, output, results.get())) return output;
  if (!in.torch.add_call(call.get(), tensors, results.get())) in.torch_failed("apply");
  return replaced(in, output, results.get());
}

// ---- hooks on tensors

void require_function(const CallArgs& args, const char* method) {
  const bool known = args.positional.size() == 2 &&
                     (args.positional[1]->kind == Kind::Function || args.positional[1]->kind == Kind::Method);
  if (!known) throw Break{BreakId::unknown_call, std::string(method) + " of something that is no Python function"};
}

const char* const kRegisterHook = "torch.Tensor.register_hook";
const char* const kPostAccumulate = "torch.Tensor.register_post_accumulate_grad_hook";

template <const char* const& method>
Value* register_hook(Interpreter& in, CallArgs& args) {
  require_function(args, method);
  const auto& steps = in.manner.hooks_of_copies;
  bool is_written = std::find(steps.begin(), steps.end(), in.resumable_step()) != steps.end();
  auto* tensor = as<TensorValue>(args.positional[0]);
  Ref history = tensor ? Ref::steal(PyObject_GetAttrString(in.fake_of(tensor), "grad_fn")) : Ref();
  if (method != kRegisterHook || !is_written || !history || history.get() == Py_None)
    return defer_on_tensor(in, method, "the handle of a hook", args);
  // The hook belongs to what the tensor is now. A copy made here still tells that when the plan ends.
  CallArgs of_copy = arguments({in.call_method(tensor, "clone", {}), args.positional[1]});
  return defer_on_tensor(in, "stator.functions.hook_behind", "the handle of a hook", of_copy);
}

Value* retain_grad(Interpreter& in, CallArgs& args) {
  defer_on_tensor(in, "torch._C.TensorBase.retain_grad", "nothing", args);
  return in.none();
}

// ---- checkpoints

/// torch.utils.checkpoint.checkpoint, in the form that is not reentrant: the part becomes a graph of its own, and a
/// node that has torch checkpoint it.
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
  if (!in.torch.add_call(call.get(), inputs, part.made.get(), true)) in.torch_failed("checkpoint");
  return result;
}

constexpr ModelRow kRows[] = {
    {"torch.Tensor.register_hook", register_hook<kRegisterHook>, 2, 2, "", true},
    {"torch.Tensor.register_post_accumulate_grad_hook", register_hook<kPostAccumulate>, 2, 2, "", true},
    {"torch._C.TensorBase.retain_grad", retain_grad, 1, 1},
    {"torch.utils.checkpoint.checkpoint", checkpoint, 1, ModelRow::kAny, "*"},
    {"torch.autograd.function.Function.apply.__func__", apply, 1, ModelRow::kAny, "*"},
};

}  // namespace

std::span<const ModelRow> autograd_models() { return kRows; }

}  // namespace stator::capture
