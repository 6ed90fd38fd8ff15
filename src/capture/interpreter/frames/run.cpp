// The captured frame and the loop over instructions.
#include "capture/guards/break_policy.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/calls/allowed.h"
#include "capture/interpreter/protocol/handlers.h"
#include "capture/interpreter/protocol/interpreter.h"
#include "capture/interpreter/torch/dispatching.h"

namespace stator::capture {

constexpr uint64_t kMaxSteps = 1 << 21;
constexpr uint64_t kSignalInterval = 1 << 12;  // in steps; a power of two

Interpreter::Interpreter(const Start& given, const std::string& graph_name, AttemptOptions attempt)
    : options(std::move(attempt)),
      start(given),
      effects(arena),
      guards(frames, prototypes),
      lifetimes(start, objects, effects, guards),
      torch(graph_name, frames, !options.for_python_backend) {
  none_ = constant(Py_None);
  true_ = constant(Py_True);
  false_ = constant(Py_False);
}

Interpreter::~Interpreter() {
  if (torch.dispatch) torch.dispatch->in = nullptr;
}

ConstantValue* Interpreter::constant(Ref object) {
  bool literal = is_literal(object.get());
  return arena.make<ConstantValue>(std::move(object), literal);
}

Value* Interpreter::integer(int64_t value) { return constant(Ref::steal(PyLong_FromLongLong(value))); }

SequenceValue* Interpreter::tuple(std::vector<Value*> items) {
  auto* made = arena.make<SequenceValue>(Kind::Tuple, &PyTuple_Type);
  made->items = std::move(items);
  return made;
}

SequenceValue* Interpreter::list(std::vector<Value*> items) {
  auto* made = arena.make<SequenceValue>(Kind::List, &PyList_Type);
  made->items = std::move(items);
  return made;
}

DictValue* Interpreter::dict() { return arena.make<DictValue>(&PyDict_Type); }

void Interpreter::open_modes() {
  const WithoutFunctionModes* hidden = start.hidden_modes();
  if (!hidden) return;
  torch.overriding = torch.overriding_at_start = hidden->state();
  for (const Ref& mode : hidden->modes()) {
    Source* source = guards.sources().function_mode(static_cast<int32_t>(torch.modes.size()), mode.get());
    torch.modes.push_back(wrap(mode.get(), source));
  }
  torch.modes_at_start = torch.modes;
}

Value* Interpreter::run(std::function<void()> at_stop) {
  at_stop_ = std::move(at_stop);
  open_modes();
  const pycompat::Code* code = pycompat::decode(start.code());
  if (!code) {
    PyErr_Clear();
    throw Break{BreakId::internal, "bytecode of an unknown version"};
  }
  if (code->is_generator_like()) throw Break{BreakId::generator, ""};
  Source* function_source = guards.sources().function(start.function());
  FunctionValue* function = external_function(start.function(), function_source);
  guards.add(function_source, FactKind::Code, PyFunction_GET_CODE(start.function()),
             reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(start.function())));
  function->guarded = true;
  open_closure(function);
  Frame top;
  top.owner = this;
  top.code = code;
  top.function = function;
  top.globals = function->globals;
  top.globals_source = function->globals_source;
  top.builtins = PyEval_GetBuiltins();
  top.line = code->code->co_firstlineno;
  top.break_is_error = start.break_is_error();
  FrameStack::Scope scope(frames, top);
  struct Leave {
    std::function<void()>& at_stop;
    ~Leave() { at_stop = nullptr; }
  } leave{at_stop_};
  open_start(top, *code);
  return run_entered(top);
}

void Interpreter::open_start(Frame& top, const pycompat::Code& code) {
  top.locals.assign(code.nlocalsplus, nullptr);
  top.unread.assign(code.nlocalsplus, nullptr);
  const std::vector<Ref>& values = start.values();
  for (size_t i = 0; i < values.size(); ++i) {
    bool on_stack = i >= static_cast<size_t>(code.nlocalsplus);
    if (!values[i]) {
      if (on_stack) top.push(arena.null());
      continue;
    }
    Source* source = guards.sources().argument(static_cast<int>(i), values[i].get());
    if (on_stack) {
      if (!source->key) source->key = Ref::steal(PyUnicode_FromFormat("<stack %d>", static_cast<int>(i)));
      top.push(arena.make<UnreadValue>(source));
      lifetimes.watch(source);
      continue;
    }
    if (!source->key) source->key = Ref::borrow(PyTuple_GET_ITEM(code.localsplus_names, i));
    // Once the prologue ran, the slots of cell and free variables hold cells. Wrapping a cell does not read its
    // contents.
    if (start.is_resumed() && (code.slot_kinds[i] & (pycompat::kSlotCell | pycompat::kSlotFree)) &&
        PyCell_Check(values[i].get())) {
      start.note_looked_at(i);
      top.locals[i] = wrap(values[i].get(), source);
    } else {
      top.unread[i] = source;
    }
  }
  if (!start.is_resumed()) return;
  top.kept.assign(code.nlocalsplus, true);
  int index = code.index_of(start.offset());
  if (index < 0) throw Break{BreakId::internal, "an offset inside of an instruction"};
  top.pc = static_cast<size_t>(index);
}

Value* Frame::read(Value* value) const {
  if (value->kind != Kind::Unread) return value;
  return owner->wrap(value->source->object.get(), value->source);
}

Value* Interpreter::local(Frame& current, int slot) {
  if (!current.kept.empty() && current.kept[slot]) start.note_looked_at(slot);
  if (!current.locals[slot] && !current.unread.empty() && current.unread[slot]) {
    Source* source = std::exchange(current.unread[slot], nullptr);
    current.locals[slot] = wrap(source->object.get(), source);
  }
  return current.locals[slot];
}

Value* Interpreter::run_frame(Frame& current) {
  FrameStack::Scope scope(frames, current);
  return run_entered(current);
}

Value* Interpreter::run_entered(Frame& current) {
  while (!current.returned && !current.yielded) {
    try {
      run_instructions(current);
    } catch (const Raise& raised) {
      enter_handler(current, raised);
    } catch (...) {
      // A break ends the attempt. It is described here, while the frames still stand.
      if (!end.is_final()) end.note_break(frames, break_policy().value_or(current.break_is_error), allowed_code(*this));
      throw;
    }
  }
  return current.result;
}

void Interpreter::run_instructions(Frame& current) {
  const std::vector<pycompat::Instr>& instrs = current.code->instrs;
  if (Value* thrown = std::exchange(current.thrown, nullptr)) throw Raise{thrown};
  lifetimes.check_watched(current);
  while (!current.returned && !current.yielded) {
    const pycompat::Instr& instr = instrs[current.pc++];
    current.line = instr.line;
    uint64_t step = frames.next_step(current);
    if (step == options.stop_before) {
      at_stop_();
      throw Stopped{};
    }
    // CPython polls for signals between instructions; a capture does now and then.
    if ((step & (kSignalInterval - 1)) == 0) {
      if (no_signals_ && no_signals_->check() < 0) throw Break{BreakId::internal, "interrupted"};
      if (step > kMaxSteps) {
        end.note_hopeless(frames);
        throw Break{BreakId::internal, "more than " + std::to_string(kMaxSteps) + " instructions"};
      }
    }
    handler_of(instr.op)(*this, current, instr);
    lifetimes.check_watched(current);
  }
}

void Interpreter::enter_handler(Frame& current, const Raise& raised) {
  frames.note_raise(raised.exception);
  // CPython's own table decides where an exception goes.
  int at = static_cast<int>(current.pc) - 1;
  const pycompat::ExceptionEntry* handler = nullptr;
  for (const pycompat::ExceptionEntry& entry : current.code->exceptions)
    if (entry.start <= at && at < entry.end) handler = &entry;
  // The values above the handler's stack depth are dropped before the handler begins.
  const Value* observable = handler ? lifetimes.find_observable(current.stack, handler->depth) : nullptr;
  if (!handler || observable) {
    end.note_raise(frames, raised.exception);
    if (!observable) throw raised;
    end.finish();
    lifetimes.drop(observable);
  }
  current.stack.resize(handler->depth);
  if (handler->lasti) current.push(integer(at));
  current.push(raised.exception);
  current.pc = handler->target;
}

}  // namespace stator::capture
