#include "capture/interpreter/assembly/assemble.h"

#include <algorithm>

#include "capture/interpreter/assembly/assembler.h"
#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/dispatching.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/tensor_attributes.h"

namespace stator::capture {

Assembly Assembler::run(Value* result) {
  check_unfinished(in_);
  require_no_callback(in_);
  return until_acyclic([&] {
    for (const Effect& effect : in_.effects)
      if (effect.kind == EffectKind::Make) emit_effect(effect);
    out_.result = emit(result);
    for (const Effect& effect : in_.effects) emit_effect(effect);
    emit_modes();
  });
}

Assembly Assembler::run_break() {
  require_no_callback(in_);
  return until_acyclic([&] { emit_break(); });
}

void Assembler::emit_break() {
  for (const Effect& effect : in_.effects) emit_effect(effect);
  for (Frame* frame = in_.frames.current(); frame; frame = frame->caller) {
    if (frame->handled) throw StopEarlier{in_.frames.raise_step(frame->handled)};
    out_.frames.insert(out_.frames.begin(), frame_state_of(*frame));
  }
  emit_modes();
  for (GeneratorValue* generator : in_.lifetimes.generators)
    if (generator->has_cleanup() && !known_.count(generator))
      throw Break{BreakId::generator, "a generator is dropped before its cleanup ran"};
}

void Assembler::emit_modes() {
  if (in_.torch.modes == in_.torch.modes_at_start && in_.torch.overriding == in_.torch.overriding_at_start) return;
  size_t kept = 0;
  while (kept < in_.torch.modes.size() && kept < in_.torch.modes_at_start.size() &&
         in_.torch.modes[kept] == in_.torch.modes_at_start[kept])
    ++kept;
  out_.modes_at_end.kept = static_cast<int64_t>(kept);
  out_.modes_at_end.state = in_.torch.overriding;
  for (size_t i = kept; i < in_.torch.modes.size(); ++i) out_.modes_at_end.pushed.push_back(emit(in_.torch.modes[i]));
}

FrameState Assembler::frame_state_of(Frame& frame) {
  FrameState state;
  if (frame.caller) state.function = emit(frame.function);
  for (size_t i = 0; i < frame.locals.size(); ++i) {
    if (!frame.kept.empty() && frame.kept[i]) continue;
    Source* unread = frame.unread.empty() ? nullptr : frame.unread[i];
    int32_t step = frame.locals[i] ? emit(frame.locals[i]) : unread ? emit_slot(unread) : -1;
    state.places.push_back(static_cast<int32_t>(i));
    state.slots.push_back(step);
  }
  for (Value* value : frame.stack) state.stack.push_back(is_null(value) ? -1 : emit(value));
  state.offset = frame.instr().offset;
  state.unit = frame.instr().unit;
  if (&frame != in_.frames.current()) state.next = frame.code->instrs[frame.pc].offset;
  state.continuation = frame.continuation;
  return state;
}

int32_t Assembler::add(Step step) {
  out_.steps.push_back(std::move(step));
  return static_cast<int32_t>(out_.steps.size()) - 1;
}

int32_t Assembler::emit(Value* value) {
  auto found = known_.find(value);
  if (found != known_.end()) {
    if (found->second < 0) {
      if (value->kind == Kind::List || value->kind == Kind::Dict) throw Cycle{value};
      throw Break{BreakId::reconstruct, "an object that holds itself"};
    }
    return found->second;
  }
  Nesting nesting;
  known_[value] = -1;
  const bool is_own = in_.prototypes.owns(value->source);
  if (is_own && value->kind != Kind::Constant && value->kind != Kind::Tuple) refuse_part();
  ++nesting_;
  int32_t made = value->source && !is_own ? emit_slot(value->source) : emit_new(value);
  known_[value] = made;
  if (--nesting_ == 0)
    while (!later_.empty())
      for (auto& fill : std::exchange(later_, {})) fill();
  return made;
}

int32_t Assembler::emit_slot(Source* source) {
  source->loaded = true;
  out_.slots.push_back(source);
  return add({StepKind::Slot, static_cast<int32_t>(out_.slots.size()) - 1});
}

int32_t Assembler::add_output(PyObject* fake) {
  out_.outputs.push_back(fake);
  return static_cast<int32_t>(out_.outputs.size()) - 1;
}

int32_t Assembler::emit_wrapper_view(const Dispatching& view) {
  MadeBy by = view.made_by;
  by.callable = Ref::borrow(known_object("stator.rebuilt.wrapper_view"));
  auto emit_if = [&](bool needed, Value* value) { return emit(needed ? value : in_.none()); };
  Value* operation = view.is_view ? in_.constant(view.operation) : in_.none();
  std::vector<int32_t> first = {emit(operation), emit_if(view.is_view, view.arguments),
                                emit_if(view.is_view, view.keywords), emit(in_.boolean(view.in_grad_mode)),
                                emit_if(view.same_storage != nullptr, view.same_storage)};
  return emit_call(by, std::move(first));
}

int32_t Assembler::emit_wrapper(TensorValue* tensor) {
  const Dispatching& dispatching = *tensor->dispatching;
  if (dispatching.is_view && !dispatching.operation)
    throw StopEarlier{dispatching.step, BreakId::reconstruct,
                      "one of several views of a tensor with a __torch_dispatch__"};
  const bool is_aliased = dispatching.is_view || dispatching.same_storage;
  const int32_t made = is_aliased ? emit_wrapper_view(dispatching) : emit_call(dispatching.made_by, {});
  known_[tensor] = made;
  std::vector<std::pair<Ref, Value*>> attributes;  // the last value of each, in the order in which they were set first
  for (auto attribute = tensor->own.rbegin(); attribute != tensor->own.rend(); ++attribute) {
    auto known = std::find_if(attributes.begin(), attributes.end(), [&](auto& other) {
      return PyUnicode_Compare(other.first.get(), attribute->first.get()) == 0;
    });
    if (known == attributes.end())
      attributes.push_back(*attribute);
    else
      known->second = attribute->second;
  }
  for (auto& [name, value] : attributes) {
    const int32_t step = emit(value);
    add({StepKind::SetAttribute, made, step, name});
  }
  return made;
}

int32_t Assembler::emit_tensor(TensorValue* tensor) {
  if (tensor->dispatching) return emit_wrapper(tensor);
  if (tensor->wrapped_at)
    throw StopEarlier{tensor->wrapped_at, BreakId::reconstruct, "a tensor of a transform that is over, or would go on"};
  Step step{StepKind::Output, add_output(tensor->fake.get())};
  if (is_untracked_view(in_, tensor)) {
    if (tensor->type != TorchTracer::tensor_type())
      throw Break{BreakId::reconstruct, "a view of another class that a __torch_dispatch__ made"};
    Step hidden{StepKind::Call, 0, -1, Ref::borrow(known_object("stator.rebuilt.untracked"))};
    hidden.items = {add(std::move(step))};
    return add(std::move(hidden));
  }
  if (tensor->type != TorchTracer::tensor_type()) step.object = Ref::borrow(reinterpret_cast<PyObject*>(tensor->type));
  return add(std::move(step));
}

int32_t Assembler::emit_opaque(OpaqueValue* opaque) {
  if (!opaque->callable) throw Break{BreakId::reconstruct, opaque->what};
  if (opaque->grad_fn && !is_as_deferred(in_, opaque))
    throw StopEarlier{opaque->step, BreakId::mutation, "a tensor is written after it got a hook"};
  Step step{StepKind::Call, 0, -1, opaque->callable};
  emit_all(opaque->arguments, step.items);
  return add(std::move(step));
}

int32_t Assembler::emit_new(Value* value) {
  switch (value->kind) {
    case Kind::Constant: {
      const Ref& object = static_cast<ConstantValue*>(value)->object;
      if (Prototype* prototype = in_.prototypes.find(object.get())) return emit_prototype(*prototype);
      const bool is_part =
          in_.prototypes.owns(object.get()) || in_.prototypes.find(reinterpret_cast<PyObject*>(Py_TYPE(object.get())));
      if (is_part) return emit_part(object.get());
      return add({StepKind::Constant, -1, -1, object});
    }
    case Kind::Tensor:
      return emit_tensor(static_cast<TensorValue*>(value));
    case Kind::Array: {
      auto* array = static_cast<ArrayValue*>(value);
      const int32_t output = add_output(array_fake(in_, array));
      Step step{StepKind::Call, 0, -1, Ref::borrow(array_maker(in_, array))};
      step.items = {add({StepKind::Output, output})};
      return add(std::move(step));
    }
    case Kind::Number: {
      static PyObject* const item = known_object("torch._C.TensorBase.item");
      Step step{StepKind::Call, 0, -1, Ref::borrow(item)};
      step.items = {add({StepKind::Output, add_output(number_fake(in_, static_cast<NumberValue*>(value)))})};
      return add(std::move(step));
    }
    case Kind::Text: {
      auto* text = static_cast<TextValue*>(value);
      Step step{StepKind::Call, 0, -1, text->callable};
      emit_all(text->arguments, step.items);
      return add(std::move(step));
    }
    case Kind::Tuple:
    case Kind::List:
      return emit_sequence(static_cast<SequenceValue*>(value));
    case Kind::Dict:
      return emit_dict(static_cast<DictValue*>(value));
    case Kind::Set:
      return emit_set(static_cast<SetValue*>(value));
    case Kind::View: {
      auto* view = static_cast<ViewValue*>(value);
      static const char* const names[] = {"keys", "values", "items"};
      int32_t dict = emit(view->dict);
      return add(
          {StepKind::View, dict, -1, Ref::steal(PyUnicode_InternFromString(names[static_cast<size_t>(view->part)]))});
    }
    case Kind::Slice: {
      auto* slice = static_cast<SliceValue*>(value);
      Step step{StepKind::Slice};
      emit_all({slice->start, slice->stop, slice->step}, step.items);
      return add(std::move(step));
    }
    case Kind::Method: {
      auto* method = static_cast<MethodValue*>(value);
      int32_t function = emit(method->function), self = emit(method->self);
      return add({StepKind::Bound, function, self});
    }
    case Kind::Object:
      return emit_object(static_cast<ObjectValue*>(value));
    case Kind::Function:
      return emit_function(static_cast<FunctionValue*>(value));
    case Kind::Cell:
      return emit_cell(static_cast<CellValue*>(value));
    case Kind::Super: {
      auto* super = static_cast<SuperValue*>(value);
      Step step{StepKind::Call, 0, -1, Ref::borrow(reinterpret_cast<PyObject*>(&PySuper_Type))};
      step.items = {emit(in_.constant(reinterpret_cast<PyObject*>(super->type))), emit(super->self)};
      return add(std::move(step));
    }
    case Kind::Opaque:
      return emit_opaque(static_cast<OpaqueValue*>(value));
    case Kind::Iterator:
      if (auto* generator = dynamic_cast<GeneratorValue*>(value)) return emit_generator(generator);
      return emit_iterator(static_cast<IteratorValue*>(value));
    default:
      throw Break{BreakId::reconstruct, std::string("a ") + in_.type_of(value)->tp_name};
  }
}

void Assembler::emit_all(const std::vector<Value*>& values, std::vector<int32_t>& into) {
  for (Value* value : values) into.push_back(emit(value));
}

Assembly assemble(Interpreter& in, Value* result) { return Assembler(in).run(result); }
Assembly assemble_break(Interpreter& in) { return Assembler(in).run_break(); }

}  // namespace stator::capture
