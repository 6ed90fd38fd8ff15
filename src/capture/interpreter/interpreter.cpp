#include "capture/interpreter/interpreter.h"

#include "capture/guards/break_policy.h"
#include "capture/guards/check.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/calls/allowed.h"
#include "capture/interpreter/opcodes/handlers.h"
#include "capture/pycompat/facts.h"
#include "core/base/check.h"

namespace stator::capture {

constexpr int kMaxDepth = 180;
constexpr uint64_t kMaxSteps = 1 << 21;

Interpreter::Interpreter(const Start& start, std::string graph_name)
    : torch(graph_name),
      function_(Ref::borrow(start.function)),
      code_(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(start.function))),
      offset_(start.offset),
      depth_(start.depth),
      levels_at_start_(TransformState::current()),
      varying_(start.varying),
      break_is_error_(start.break_is_error),
      hidden_(start.hidden),
      sources_(std::make_unique<SourceTree>()) {
  const pycompat::Code* decoded = pycompat::decode(code_);
  int count = !decoded ? 0
              : offset_ > 0
                  ? decoded->nlocalsplus + depth_
                  : decoded->argcount + decoded->kwonlyargcount + decoded->has_varargs() + decoded->has_varkeywords();
  for (int i = 0; i < count; ++i) values_.push_back(Ref::borrow(start.values[i]));
  looked_at_.assign(values_.size(), false);
  none_ = constant(Py_None);
  true_ = constant(Py_True);
  false_ = constant(Py_False);
}

Interpreter::~Interpreter() = default;

Value* Interpreter::none() { return none_; }
Value* Interpreter::boolean(bool value) { return value ? true_ : false_; }

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

// ---- the captured frame

void Interpreter::take_modes() {
  if (!hidden_) return;
  overriding = outside_overriding = hidden_->state();
  for (const Ref& mode : hidden_->modes()) {
    Source* source = sources_->function_mode(static_cast<int32_t>(modes.size()), mode.get());
    modes.push_back(wrap(mode.get(), source));
  }
  outside_modes = modes;
}

Value* Interpreter::run() {
  take_modes();
  const pycompat::Code* code = pycompat::decode(code_);
  if (!code) {
    PyErr_Clear();
    throw Break{BreakId::internal, "bytecode of an unknown version"};
  }
  if (code->is_generator_like()) throw Break{BreakId::generator, ""};
  Source* function_source = sources_->function(function_.get());
  FunctionValue* function = outside_function(function_.get(), function_source);
  guard(function_source, FactKind::Code, function_.as<PyObject>() ? PyFunction_GET_CODE(function_.get()) : nullptr,
        reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(function_.get())));
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
  top.break_is_error = break_is_error_;
  frame = &top;
  struct Leave {
    Frame*& running;
    ~Leave() { running = nullptr; }
  } leave{frame};
  open_start(top, *code);
  return run_frame(top);
}

void Interpreter::open_start(Frame& top, const pycompat::Code& code) {
  top.locals.assign(code.nlocalsplus, nullptr);
  top.unread.assign(code.nlocalsplus, nullptr);
  for (size_t i = 0; i < values_.size(); ++i) {
    bool on_stack = i >= static_cast<size_t>(code.nlocalsplus);
    if (!values_[i]) {
      if (on_stack) top.push(arena.null());
      continue;
    }
    Source* source = sources_->argument(static_cast<int>(i), values_[i].get());
    if (on_stack) {
      if (!source->key) source->key = Ref::steal(PyUnicode_FromFormat("<stack %d>", static_cast<int>(i)));
      top.push(arena.make<UnreadValue>(source));
      watch(source);
      continue;
    }
    if (!source->key) source->key = Ref::borrow(PyTuple_GET_ITEM(code.localsplus_names, i));
    // Cells are what the slots of cell and free variables hold once the prologue ran; looking at one looks at nothing.
    if (offset_ > 0 && (code.slot_kinds[i] & (pycompat::kSlotCell | pycompat::kSlotFree)) &&
        PyCell_Check(values_[i].get())) {
      looked_at_[i] = true;
      top.locals[i] = wrap(values_[i].get(), source);
    } else {
      top.unread[i] = source;
    }
  }
  if (offset_ == 0) return;
  top.kept.assign(code.nlocalsplus, true);
  int index = code.index_of(offset_);
  if (index < 0) throw Break{BreakId::internal, "an offset inside of an instruction"};
  top.pc = static_cast<size_t>(index);
}

std::vector<BoundPlace> Interpreter::bound_places() const {
  std::vector<BoundPlace> places;
  size_t slots = values_.size() - static_cast<size_t>(depth_);
  for (size_t i = 0; offset_ > 0 && i < values_.size(); ++i)
    if (i >= slots || looked_at_[i]) places.push_back({static_cast<int32_t>(i), static_cast<bool>(values_[i])});
  return places;
}

Value* Frame::read(Value* value) const {
  if (value->kind != Kind::Unread) return value;
  return owner->wrap(value->source->object.get(), value->source);
}

Value* Interpreter::local(Frame& current, int slot) {
  if (!current.kept.empty() && current.kept[slot]) looked_at_[slot] = true;
  if (!current.locals[slot] && !current.unread.empty() && current.unread[slot]) {
    Source* source = std::exchange(current.unread[slot], nullptr);
    current.locals[slot] = wrap(source->object.get(), source);
  }
  return current.locals[slot];
}

Value* Interpreter::run_frame(Frame& current) {
  if (++depth > kMaxDepth) {
    --depth;
    throw Break{BreakId::recursion, "more than " + std::to_string(kMaxDepth) + " nested calls"};
  }
  Frame* previous = frame;
  frame = &current;
  current.in_transform = in_transform;
  const std::vector<pycompat::Instr>& instrs = current.code->instrs;
  while (!current.returned && !current.yielded) {
    try {
      if (Value* thrown = std::exchange(current.thrown, nullptr)) throw Raise{thrown};
      look_after_watched(current);
      while (!current.returned && !current.yielded) {
        const pycompat::Instr& instr = instrs[current.pc++];
        current.line = instr.line;
        current.step = ++steps_;
        if (steps_ == stop_before) {
          at_stop();
          throw Stopped{};
        }
        // CPython polls for signals between instructions; a capture does now and then.
        if ((steps_ & 0xFFF) == 0) {
          if (signals->check() < 0) throw Break{BreakId::internal, "interrupted"};
          if (steps_ > kMaxSteps) {
            // Nothing would be gained by going on from here: the frame is left to Python whole.
            end_stack = stack_lines();
            end_step = outer_step = 0;
            unwinding_ = true;
            throw Break{BreakId::internal, "more than " + std::to_string(kMaxSteps) + " instructions"};
          }
        }
        handler_of(instr.op)(*this, current, instr);
        look_after_watched(current);
      }
    } catch (const Raise& raised) {
      raise_steps_.try_emplace(raised.exception, resumable_step());
      // CPython's own table decides where an exception goes.
      int at = static_cast<int>(current.pc) - 1;
      const pycompat::ExceptionEntry* handler = nullptr;
      for (const pycompat::ExceptionEntry& entry : current.code->exceptions)
        if (entry.start <= at && at < entry.end) handler = &entry;
      // What stands on the stack between is dropped before the handler begins.
      const Value* aloud = handler ? ends_aloud(current.stack, handler->depth) : nullptr;
      if (!handler || aloud) {
        if (raised.exception != last_raised_) {
          end_stack = stack_lines();
          end_is_error = false;
          note_end();
        }
        last_raised_ = raised.exception;
        unwinding_ = unwinding_ || aloud;
        frame = previous;
        --depth;
        if (aloud) let_go(aloud);
        throw;
      }
      frame = &current;
      current.stack.resize(handler->depth);
      if (handler->lasti) current.push(integer(at));
      current.push(raised.exception);
      current.pc = handler->target;
    } catch (...) {
      // A break ends the capture: the frames are gone when it is reported.
      if (!unwinding_) {
        end_stack = stack_lines();
        end_is_error = break_policy().value_or(frame->break_is_error);
        end_allowed = allowed_code(*this);
        note_end();
      }
      unwinding_ = true;
      frame = previous;
      --depth;
      throw;
    }
  }
  frame = previous;
  --depth;
  return current.result;
}

uint64_t Interpreter::raise_step(Value* exception) const {
  auto found = raise_steps_.find(exception);
  // One that was made and not raised yet: it cannot be told where.
  return found == raise_steps_.end() ? 0 : found->second;
}

void Interpreter::note_end() {
  end_step = resumable_step();
  for (const Frame* f = frame; f; f = f->caller) outer_step = f->step;
}

uint64_t Interpreter::resumable_step() const {
  // Where code of another kind stands between two frames, the break moves out to the instruction that led there; and
  // to the one that led to a transform, from within.
  uint64_t step = frame->step;
  bool inside = in_transform;
  for (const Frame* f = frame; f->caller; inside = f->in_transform, f = f->caller)
    if (inside || f->continuation == Continuation::Opaque) step = f->caller->step;
  return inside ? opened_at_ : step;
}

void Interpreter::look_at_levels() {
  const bool open = !(TransformState::current() == levels_at_start_);
  if (open && !in_transform)
    for (const Frame* f = frame; f; f = f->caller) opened_at_ = f->step;
  in_transform = open;
}

void Interpreter::locate() {
  torch.use_location(location_of(*frame));
  uint64_t step = resumable_step();
  if (node_steps_.empty() || node_steps_.back().second != step) node_steps_.emplace_back(torch.node_count(), step);
}

uint64_t Interpreter::step_of_node(size_t node) const {
  uint64_t step = 0;
  for (auto& [first, at] : node_steps_)
    if (first <= node) step = at;
  return step;
}

uint32_t Interpreter::location_of(Frame& current) {
  // Lines enter the graph when an operator is recorded there, and not before.
  if (!current.location || current.located_line != current.line) {
    uint32_t caller = current.caller ? location_of(*current.caller) : 0;
    PyCodeObject* code = current.code->code;
    current.location = torch.add_location(code->co_filename, code->co_qualname, current.line, caller);
    current.located_line = current.line;
  }
  return current.location;
}

UserLine Interpreter::user_line() const {
  if (!frame) return {};
  return {Ref::borrow(frame->code->code->co_filename), frame->line};
}

std::vector<StackLine> Interpreter::stack_lines() const {
  std::vector<StackLine> lines;
  for (Frame* f = frame; f; f = f->caller) {
    const char* file = PyUnicode_AsUTF8(f->code->code->co_filename);
    const char* name = PyUnicode_AsUTF8(f->code->code->co_qualname);
    lines.insert(lines.begin(), StackLine{file ? file : "?", name ? name : "?", f->line});
  }
  return lines;
}

// ---- guards

/// The source, and what is read from it, holds nothing any more.
static void empty(Source* source) {
  source->object = Ref();
  source->facts.clear();
  for (Source* child : source->children) empty(child);
}

std::unique_ptr<SourceTree> Interpreter::take_sources() {
  sources_->drop_roots([&](Source* root) {
    const bool is_own = prototypes.owns(root);
    if (is_own) empty(root);
    return is_own;
  });
  return std::move(sources_);
}

void Interpreter::guard(Source* source, FactKind kind, PyObject* object, int64_t number) {
  // Who stands at a pinned source follows from other guards, and so does the class of what cannot change it.
  if (source->kind == SourceKind::Pinned) {
    if (kind == FactKind::Identity || kind == FactKind::Equals) return;
    if (kind == FactKind::TypeIs && has_constant_instances(reinterpret_cast<PyTypeObject*>(object))) return;
  }
  Fact fact{kind, Ref::borrow(object), Ref(), number, user_line()};
  if (kind == FactKind::Code) fact.extra = Ref::borrow(PyFunction_GET_DEFAULTS(source->object.get()));
  sources_->add_fact(source, std::move(fact));
}

void Interpreter::guard_at_end(Source* source, FactKind kind, int64_t number) {
  sources_->add_fact(source, Fact{kind, Ref(), Ref(), number, UserLine()});
}

void Interpreter::guard_class(PyTypeObject* type) {
  // What a prototype inherits was guarded when it was made.
  if (prototypes.find(reinterpret_cast<PyObject*>(type))) return;
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return;
  auto [found, fresh] = guarded_classes_.try_emplace(type, true);
  if (!fresh) return;
  static PyObject* probe = PyUnicode_InternFromString("__stator__");
  if (stator_type_version(type) == 0) _PyType_Lookup(type, probe);
  if (stator_type_version(type) == 0)
    throw Break{BreakId::internal, std::string("class without a version: ") + type->tp_name};
  Source* source = sources_->pinned(reinterpret_cast<PyObject*>(type), type->tp_name);
  guard(source, FactKind::TypeVersion, reinterpret_cast<PyObject*>(type), stator_type_version(type));
}

void Interpreter::guard_same(Source* a, Source* b, bool same) {
  if (a == b) return;
  // What prototypes have is no place that a later call could look at.
  const bool is_own = prototypes.owns(a);
  if (is_own || prototypes.owns(b)) {
    Source* other = is_own ? b : a;
    if (prototypes.owns(other)) return;
    if (!same && prototypes.owns((is_own ? a : b)->object.get())) return;
    return guard(other, FactKind::Identity, other->object.get());
  }
  Fact fact{same ? FactKind::SameAs : FactKind::NotSameAs, Ref(), Ref(), 0, user_line(), b};
  a->loaded = b->loaded = true;
  sources_->add_fact(a, std::move(fact));
}

}  // namespace stator::capture
