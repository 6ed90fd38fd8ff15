#include "capture/frame/resume.h"

#include <optional>

#include "capture/call/concrete.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/hook.h"
#include "core/observe/counters.h"
#include "core/observe/profile.h"

namespace stator::capture {
namespace {

using pycompat::Code;
using pycompat::ExceptionEntry;
using pycompat::Instr;

thread_local Compiler* watching = nullptr;

PyObject* on_frame(PyThreadState* tstate, StatorFrame* frame, int throwflag);

/// Frames that start below are candidates.
class Watch {
 public:
  explicit Watch(Compiler& compiler) : outer_(std::exchange(watching, &compiler)), hook_(on_frame) {}
  ~Watch() { watching = outer_; }
  bool ok() const { return hook_.ok(); }

 private:
  Compiler* outer_;
  pycompat::HookScope hook_;
};

class Block final : public WatchedBlock {
 public:
  explicit Block(std::unique_ptr<Compiler> compiler) : compiler_(std::move(compiler)), watch_(*compiler_) {}
  bool ok() const { return watch_.ok(); }

 private:
  std::unique_ptr<Compiler> compiler_;
  Watch watch_;
};

StatorReturn return_site(const Code& code) { return {code.return_offset, code.return_is_const}; }

/// One real frame on its way from break to break. Ends the frame exactly once, as the evaluator expects.
class Resumption {
 public:
  Resumption(Compiler& compiler, PyThreadState* tstate, StatorFrame* frame)
      : compiler_(compiler),
        tstate_(tstate),
        frame_(frame),
        function_(Ref::borrow(stator_frame_function(frame))),
        code_(*pycompat::decode(stator_frame_code(frame))) {}

  /// Goes on from the frame's offset.
  PyObject* run() {
    while (!over_) {
      if (PyErr_CheckSignals() < 0) {
        raised_at(next_instr());
        continue;
      }
      step();
    }
    return result_;
  }

  /// Goes on in the images from `first` on, this frame's own being the first.
  PyObject* run_images(const Plan& plan, std::vector<Ref>& made, size_t first) {
    enter(plan, made, first);
    return run();
  }

 private:
  const Instr& next_instr() const { return code_.instrs[code_.index_of(stator_frame_offset(frame_))]; }

  void step() {
    if (stator_is_tracing(tstate_) || leaving_) return run_plain();
    Place place{function_.get(), &code_, stator_frame_offset(frame_), stator_frame_slots(frame_),
                stator_frame_stack_depth(frame_)};
    int index = code_.index_of(place.offset);
    if (index < 0) return run_plain();
    const Instr& next = code_.instrs[index];
    if (next.op == pycompat::Op::RETURN_VALUE)
      return end(stator_frame_return(tstate_, frame_, stator_frame_pop(frame_), return_site(code_)));
    if (next.op == pycompat::Op::RETURN_CONST) {
      PyObject* constant = PyTuple_GET_ITEM(code_.code->co_consts, next.arg);
      return end(stator_frame_return(tstate_, frame_, Ref::borrow(constant).release(), return_site(code_)));
    }
    std::shared_ptr<Entry> entry = compiler_.entry_at(place);
    if (!entry) {
      if (PyErr_Occurred()) return raised_at(next_instr());
      return run_plain();
    }
    if (!entry->plan) return entry->runs_plain ? run_plain() : execute_next();
    Outcome outcome;
    if (!run_plan(*entry, outcome)) {
      if (!outcome.operator_failed) return raised_at(next_instr());
      // The program itself raises it, at its own line and into its own handlers.
      PyErr_Clear();
      observe::count("plans.failed");
      return run_plain();
    }
    if (entry->plan->frames.empty())
      return end(stator_frame_return(tstate_, frame_, outcome.result.release(), return_site(code_)));
    enter(*entry->plan, outcome.made, 0);
  }

  void end(PyObject* result) {
    result_ = result;
    over_ = true;
  }

  void run_plain() {
    std::optional<Watch> watch;
    std::optional<FramesAside> aside;
    if (leaving_)
      aside.emplace();
    else if (!watch.emplace(compiler_).ok())
      PyErr_Clear();
    end(stator_frame_is_fresh(frame_) ? stator_eval_next(tstate_, frame_, 0) : stator_frame_run(tstate_, frame_));
  }

  /// The error that is set belongs to this instruction: the program's handler in this frame gets it, or the caller.
  /// `again`: an exception that was here before, and has its entry of this frame. `first`: the code unit that raised
  /// it.
  void raised_at(const Instr& instr) { raised_at(instr, instr.unit, false); }
  void raised_at(const Instr& instr, int first, bool again) {
    leaving_ = leaving_ || compiler_.leaves_handlers();
    const ExceptionEntry* handler = nullptr;
    int index = static_cast<int>(&instr - code_.instrs.data());
    for (const ExceptionEntry& entry : code_.exceptions)
      if (entry.start <= index && index < entry.end) handler = &entry;
    if (!handler) {
      PyObject* result = stator_frame_throw(tstate_, frame_, instr.unit);
      if (again && !result) drop_newest_entry();
      return end(result);
    }
    PyObject *type, *value, *trace;
    {
      // An error that C code set by its class is made an instance here: that may run code, below this frame.
      pycompat::LinkedFrame linked(tstate_, frame_, instr.unit);
      PyFrameObject* object = again ? nullptr : PyEval_GetFrame();
      if (object) PyTraceBack_Here(object);
      PyErr_Fetch(&type, &value, &trace);
      PyErr_NormalizeException(&type, &value, &trace);
    }
    if (trace) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    Ref exception = Ref::steal(value);
    while (stator_frame_stack_depth(frame_) > handler->depth) Ref::steal(stator_frame_pop(frame_));
    if (handler->lasti) stator_frame_push(frame_, PyLong_FromLong(first));
    stator_frame_push(frame_, exception.release());
    stator_frame_set_offset(frame_, code_.instrs[handler->target].offset);
  }

  /// Of the current error's traceback.
  static void drop_newest_entry() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (trace)
      Py_SETREF(trace, Py_XNewRef(reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(trace)->tb_next)));
    PyErr_Restore(type, value, trace);
  }

  /// Where an exception that RERAISE raises came from: its operand tells how deep the number stands.
  int first_unit(const Instr& instr) const {
    if (instr.op != pycompat::Op::RERAISE || instr.arg == 0) return instr.unit;
    int depth = stator_frame_stack_depth(frame_) - instr.arg - 1;
    return depth < 0 ? instr.unit : static_cast<int>(PyLong_AsLong(stator_frame_stack(frame_, depth)));
  }

  void execute_next() {
    const Instr& instr = next_instr();
    int first = first_unit(instr);
    size_t index = &instr - code_.instrs.data();
    Done done;
    {
      Watch watch(compiler_);
      if (!watch.ok()) PyErr_Clear();
      done = execute(tstate_, frame_, code_, instr);
    }
    switch (done) {
      case Done::Next:
        return stator_frame_set_offset(frame_, code_.instrs[index + 1].offset);
      case Done::Jump:
        return stator_frame_set_offset(frame_, code_.instrs[instr.target].offset);
      case Done::Raised:
        return raised_at(instr);
      case Done::Reraised:
        return raised_at(instr, first, true);
      case Done::Cannot:
        observe::count(std::string("leaves.") + pycompat::op_name(instr.op));
        stator_frame_set_offset(frame_, instr.offset);
        return run_plain();
    }
  }

  /// Puts this frame's image in place and does what its instruction was about: a call that is under way in frames of
  /// its own, or the one that breaks.
  void enter(const Plan& plan, std::vector<Ref>& made, size_t index) {
    const FrameImage& image = plan.frames[index];
    if (!fill(image, made)) return end(stator_frame_throw(tstate_, frame_, 0));
    if (index + 1 == plan.frames.size()) {
      made.clear();
      return plan.is_cut ? void() : execute_next();
    }
    Ref result;
    const Instr& instr = next_instr();
    {
      pycompat::LinkedFrame linked(tstate_, frame_, image.unit);
      result = Ref::steal(call_image(plan, made, index + 1));
    }
    if (!result) return raised_at(instr);
    if (plan.frames[index + 1].continuation == Continuation::Discard) {
      if (result.get() != Py_None) {
        PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
        return raised_at(instr);
      }
    } else {
      stator_frame_push(frame_, result.release());
    }
    stator_frame_set_offset(frame_, image.next);
  }

  bool fill(const FrameImage& image, const std::vector<Ref>& made) {
    constexpr size_t kInline = 32;
    size_t slots = image.slots.size(), count = slots + image.stack.size();
    PyObject* inline_row[kInline];
    std::vector<PyObject*> long_row(count > kInline ? count : 0);
    PyObject** row = count > kInline ? long_row.data() : inline_row;
    PyObject** next = row;
    for (const std::vector<int32_t>* steps : {&image.slots, &image.stack})
      for (int32_t step : *steps) *next++ = step < 0 ? nullptr : Py_NewRef(made[step].get());
    static constexpr int32_t kNoPlace = 0;  // an empty row must not read as none
    StatorFrameState state{row,
                           row + slots,
                           static_cast<int>(image.stack.size()),
                           image.offset,
                           slots ? image.places.data() : &kNoPlace,
                           static_cast<int>(slots)};
    if (stator_frame_fill(frame_, &state) == 0) return true;
    for (size_t i = 0; i < count; ++i) Py_XDECREF(row[i]);
    return false;
  }

  struct Inner {
    Compiler& compiler;
    const Plan& plan;
    std::vector<Ref>& made;
    size_t index;
  };
  static PyObject* run_inner(PyThreadState* tstate, StatorFrame* frame, void* data) {
    auto* inner = static_cast<Inner*>(data);
    Resumption resumption(inner->compiler, tstate, frame);
    return resumption.run_images(inner->plan, inner->made, inner->index);
  }
  PyObject* call_image(const Plan& plan, std::vector<Ref>& made, size_t index) {
    Ref function = made[plan.frames[index].function];
    return call_with_image(compiler_, function.get(), plan, made, index);
  }

 public:
  static PyObject* call_with_image(Compiler& compiler, PyObject* function, const Plan& plan, std::vector<Ref>& made,
                                   size_t index) {
    Inner inner{compiler, plan, made, index};
    if (Py_EnterRecursiveCall(" in a compiled function")) return nullptr;
    PyObject* result = stator_call_with_frame(function, run_inner, &inner);
    Py_LeaveRecursiveCall();
    return result;
  }

 private:
  Compiler& compiler_;
  PyThreadState* tstate_;
  StatorFrame* frame_;
  Ref function_;
  const Code& code_;
  PyObject* result_ = nullptr;
  bool over_ = false;
  bool leaving_ = false;  // an error is on its way out, and what handles it is plain Python
};

PyObject* on_frame(PyThreadState* tstate, StatorFrame* frame, int throwflag) {
  Compiler* compiler = watching;
  PyCodeObject* code = stator_frame_code(frame);
  constexpr int kNotPlain = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (!compiler || throwflag || (code->co_flags & kNotPlain) || !(code->co_flags & CO_NEWLOCALS) ||
      !stator_frame_is_fresh(frame) || stator_is_tracing(tstate) ||
      !compiler->is_candidate(stator_frame_function(frame), stator_frame_slots(frame)) || !pycompat::decode(code))
    return stator_eval_next(tstate, frame, throwflag);
  Resumption resumption(*compiler, tstate, frame);
  return resumption.run();
}

}  // namespace

FramesAside::FramesAside() : outer_(std::exchange(watching, nullptr)) {}
FramesAside::~FramesAside() { watching = outer_; }

bool run_plan(const Entry& entry, Outcome& outcome) {
  FramesAside aside;
  observe::ProfiledRange range([&] { return entry.label(); });
  return entry.plan->run(*entry.guards, outcome);
}

PyObject* go_on(Compiler& compiler, PyObject* function, const Plan& plan, Outcome outcome) {
  return Resumption::call_with_image(compiler, function, plan, outcome.made, 0);
}

PyObject* call_watched(Compiler& compiler, PyObject* function, PyObject* const* args, size_t nargsf, PyObject* names) {
  Watch watch(compiler);
  if (!watch.ok()) PyErr_Clear();
  return PyObject_Vectorcall(function, args, nargsf, names);
}

std::unique_ptr<WatchedBlock> watch_block(std::unique_ptr<Compiler> compiler) {
  auto block = std::make_unique<Block>(std::move(compiler));
  return block->ok() ? std::move(block) : nullptr;
}

}  // namespace stator::capture
