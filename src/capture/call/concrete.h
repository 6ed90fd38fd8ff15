#pragma once

#include "capture/pycompat/code.h"
#include "capture/pycompat/frame.h"

/// One instruction done for real on a real frame, where a capture could not go on. Each handler is the instruction's
/// own object-API call, so effects, errors and messages are CPython's.
namespace stator::capture {

enum class Done : uint8_t {
  Next,      // goes on at the following instruction
  Jump,      // goes on at the instruction's target
  Raised,    // a Python error is set
  Reraised,  // so is it, and its traceback stays as it was; below, RERAISE's number tells where it came from first
  Cannot,    // nothing was touched: CPython has to run the frame from here
};

/// The frame is linked at the instruction and stays so: callees see it as their caller. GIL held.
Done execute(PyThreadState* tstate, StatorFrame* frame, const pycompat::Code& code, const pycompat::Instr& instr);

}  // namespace stator::capture
