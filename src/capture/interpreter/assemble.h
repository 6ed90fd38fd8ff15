#pragma once

#include <vector>

#include "capture/call/plan.h"
#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// The steps that make the frame's result and replay its effects, with the fakes that must be graph outputs.
/// Slots are numbered only when the check array is made: until then `Step::a` of a Slot step indexes `slots`.
struct Assembly {
  std::vector<Step> steps;
  int32_t result = -1;
  std::vector<FrameImage> frames;  // of a break, outermost first
  std::vector<PyObject*> outputs;  // fakes, in graph output order
  std::vector<Source*> slots;
};

/// The state at a break holds an exception that only the capture raised: stop before the instruction that raised it.
struct StopEarlier {
  uint64_t step;
};

/// Throws Break{reconstruct} for what cannot be rebuilt.
Assembly assemble(Interpreter& in, Value* result);
/// The same for the frames that stand now, before an instruction that breaks. Throws StopEarlier too.
Assembly assemble_break(Interpreter& in);

}  // namespace stator::capture
