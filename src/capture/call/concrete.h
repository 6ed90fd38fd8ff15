#pragma once

#include "capture/pycompat/code.h"
#include "capture/pycompat/frame.h"

/// Concrete execution: runs the one instruction that broke, on the real frame. Each handler makes the C API call that
/// CPython's evaluator makes for the instruction, so effects, errors and messages are CPython's.
namespace stator::capture {

enum class Done : uint8_t {
  Next,      // continue at the following instruction
  Jump,      // continue at the instruction's target
  Raised,    // a Python error is set
  Reraised,  // a Python error is set; no entry for this frame may be added to its traceback (RERAISE)
  Cannot,    // nothing was changed: CPython must run the rest of the frame
};

/// While the instruction runs, the frame is the thread's current frame, so callees see it as their caller. GIL held.
Done execute(PyThreadState* tstate, StatorFrame* frame, const pycompat::Code& code, const pycompat::Instr& instr);

}  // namespace stator::capture
