#include "capture/frame/resumption.h"

#include <optional>

#include "capture/call/concrete.h"
#include "capture/frame/resume.h"
#include "capture/frame/watch.h"
#include "capture/pycompat/facts.h"
#include "core/observe/counters.h"

namespace stator::capture {

using pycompat::Code;
using pycompat::Instr;

static StatorReturn return_site(const Code& code) { return {code.return_offset, code.return_is_const}; }

Resumption::Resumption(Compiler& compiler, PyThreadState* tstate, StatorFrame* frame)
    : compiler_(compiler),
      tstate_(tstate),
      frame_(frame),
      function_(Ref::borrow(stator_frame_function(frame))),
      code_(*pycompat::decode(stator_frame_code(frame))) {}

PyObject* Resumption::run() {
  while (!over_) {
    if (PyErr_CheckSignals() < 0) {
      raise_at(next_instr());
      continue;
    }
    step();
  }
  return result_;
}

PyObject* Resumption::run_frame_states(const Plan& plan, std::vector<Ref>& made, size_t index) {
  enter(plan, made, index);
  return run();
}

const Instr& Resumption::next_instr() const { return code_.instrs[code_.index_of(stator_frame_offset(frame_))]; }

void Resumption::step() {
  if (stator_is_tracing(tstate_) || runs_plain_) return run_plain();
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
  if (!entry) return PyErr_Occurred() ? raise_at(next) : run_plain();
  if (!entry->plan) return entry->runs_plain ? run_plain() : execute_next();
  run_entry(*entry);
}

void Resumption::run_entry(const Entry& entry) {
  PlanResult ended;
  if (!run_plan(entry, ended)) {
    if (!ended.operator_failed) return raise_at(next_instr());
    // The program itself raises it, at its own line and into its own handlers.
    PyErr_Clear();
    observe::count("plans.failed");
    return run_plain();
  }
  if (entry.plan->frames.empty())
    return end(stator_frame_return(tstate_, frame_, ended.result.release(), return_site(code_)));
  enter(*entry.plan, ended.made, 0);
}

void Resumption::end(PyObject* result) {
  result_ = result;
  over_ = true;
}

void Resumption::run_plain() {
  std::optional<Watch> watch;
  std::optional<NoWatch> no_watch;
  if (runs_plain_)
    no_watch.emplace();
  else if (!watch.emplace(compiler_).ok())
    PyErr_Clear();
  end(stator_frame_is_fresh(frame_) ? stator_eval_next(tstate_, frame_, 0) : stator_frame_run(tstate_, frame_));
}

void Resumption::execute_next() {
  const Instr& instr = next_instr();
  const int first = raised_by(instr);
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
      return raise_at(instr);
    case Done::Reraised:
      return raise_at(instr, first, true);
    case Done::Cannot:
      observe::count(std::string("leaves.") + pycompat::op_name(instr.op));
      stator_frame_set_offset(frame_, instr.offset);
      return run_plain();
  }
}

void Resumption::enter(const Plan& plan, std::vector<Ref>& made, size_t index) {
  const FrameState& state = plan.frames[index];
  if (!fill(state, made)) return end(stator_frame_throw(tstate_, frame_, 0));
  if (index + 1 == plan.frames.size()) {
    made.clear();
    if (plan.skips_rest) return run_plain();
    return plan.is_cut ? void() : execute_next();
  }
  const FrameState& callee = plan.frames[index + 1];
  Ref result, function = made[callee.function];
  const Instr& instr = next_instr();  // before the frame is linked, which moves its offset
  {
    pycompat::LinkedFrame linked(tstate_, frame_, state.unit);
    result = Ref::steal(call_frame_state(compiler_, function.get(), plan, made, index + 1));
  }
  after_call(state, callee, instr, std::move(result));
}

void Resumption::after_call(const FrameState& state, const FrameState& callee, const Instr& instr, Ref result) {
  if (!result) return raise_at(instr);
  if (callee.continuation != Continuation::Discard) {
    stator_frame_push(frame_, result.release());
  } else if (result.get() != Py_None) {
    PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
    return raise_at(instr);
  }
  stator_frame_set_offset(frame_, state.next);
}

bool Resumption::fill(const FrameState& state, const std::vector<Ref>& made) {
  constexpr size_t kInline = 32;
  size_t slots = state.slots.size(), count = slots + state.stack.size();
  PyObject* inline_row[kInline];
  std::vector<PyObject*> long_row(count > kInline ? count : 0);
  PyObject** row = count > kInline ? long_row.data() : inline_row;
  PyObject** next = row;
  for (const std::vector<int32_t>* steps : {&state.slots, &state.stack})
    for (int32_t step : *steps) *next++ = step < 0 ? nullptr : Py_NewRef(made[step].get());
  static constexpr int32_t kNoPlace = 0;  // a null pointer would mean: all places
  StatorFrameState filled{row,
                          row + slots,
                          static_cast<int>(state.stack.size()),
                          state.offset,
                          slots ? state.places.data() : &kNoPlace,
                          static_cast<int>(slots)};
  if (stator_frame_fill(frame_, &filled) == 0) return true;
  for (size_t i = 0; i < count; ++i) Py_XDECREF(row[i]);
  return false;
}

}  // namespace stator::capture
