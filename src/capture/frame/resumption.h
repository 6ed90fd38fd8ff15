#pragma once

#include <vector>

#include "capture/frame/compiler.h"
#include "capture/pycompat/frame.h"

namespace stator::capture {

/// One real frame on its way from break to break. Ends the frame exactly once, as the evaluator expects.
class Resumption {
 public:
  Resumption(Compiler& compiler, PyThreadState* tstate, StatorFrame* frame);

  /// Runs from the frame's offset to its end. New reference to the result, or null with a Python error set.
  PyObject* run();

  /// Fills this frame by the plan's frame state number `index`, the frames that it calls by those after it, and runs.
  PyObject* run_frame_states(const Plan& plan, std::vector<Ref>& made, size_t index);

 private:
  const pycompat::Instr& next_instr() const;

  /// One entry, one instruction, or all of the rest.
  void step();
  /// Runs the plan of an entry, and goes where it ends.
  void run_entry(const Entry& entry);
  /// CPython runs the rest of the frame.
  void run_plain();
  /// Runs the next instruction for real.
  void execute_next();
  /// The frame is over with this result (stolen), or null with a Python error set.
  void end(PyObject* result);

  /// Raises the Python error that is set as if `instr` had raised it: the frame goes on at its handler, or ends.
  void raise_at(const pycompat::Instr& instr) { raise_at(instr, instr.unit, false); }
  /// `unit`: the code unit that raised it first. `is_again`: the exception was raised here before, so that its
  /// traceback has an entry for this frame.
  void raise_at(const pycompat::Instr& instr, int unit, bool is_again);
  /// The code unit that first raised what a RERAISE raises again: the program keeps it on the stack.
  int raised_by(const pycompat::Instr& instr) const;

  /// Puts frame state `index` into this frame. Then does its instruction: a call that is under way in frames of its
  /// own, or the one that broke.
  void enter(const Plan& plan, std::vector<Ref>& made, size_t index);
  bool fill(const FrameState& state, const std::vector<Ref>& made);
  /// After a call that was under way, with its result: the frame goes on behind it.
  void after_call(const FrameState& state, const FrameState& callee, const pycompat::Instr& instr, Ref result);

  Compiler& compiler_;
  PyThreadState* tstate_;
  StatorFrame* frame_;
  Ref function_;
  const pycompat::Code& code_;
  PyObject* result_ = nullptr;
  bool over_ = false;
  bool runs_plain_ = false;  // an error is on its way out, and CPython runs what handles it
};

/// Makes a frame for `function`, fills it by the plan's frame state number `index`, and runs it to its end.
PyObject* call_frame_state(Compiler& compiler, PyObject* function, const Plan& plan, std::vector<Ref>& made,
                           size_t index);

}  // namespace stator::capture
