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
  ModesAtEnd modes_at_end;
  std::vector<Source*> slots;
};

/// The state at the end holds what only the capture has, such as an exception that it raised: stop before the
/// instruction that made it.
struct StopEarlier {
  uint64_t step;
  BreakId id = BreakId::raises;
  const char* why = "an exception is alive";
};

/// Throws Break{reconstruct} for what cannot be rebuilt.
Assembly assemble(Interpreter& in, Value* result);
/// The same for the frames that stand now, before an instruction that breaks. Throws StopEarlier too.
Assembly assemble_break(Interpreter& in);

}  // namespace stator::capture
