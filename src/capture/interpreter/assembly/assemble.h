#pragma once

#include <vector>

#include "capture/call/plan.h"
#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The steps that make the frame's result and replay its effects, with the fakes that must be graph outputs.
/// Slots are numbered only when the check array is made: until then `Step::a` of a Slot step indexes `slots`.
struct Assembly {
  std::vector<Step> steps;
  int32_t result = -1;
  std::vector<FrameState> frames;  // of a break, outermost first
  std::vector<PyObject*> outputs;  // fakes, in graph output order
  ModesAtEnd modes_at_end;
  std::vector<Source*> slots;
};

/// The state at the end holds something that a plan can't rebuild, such as an exception that was raised in the capture:
/// the attempt must stop before the instruction that made it.
struct StopEarlier {
  uint64_t step;
  BreakId id = BreakId::raises;
  const char* why = "an exception is alive";
};

/// Throws Break{reconstruct} for values that can't be rebuilt.
Assembly assemble(Interpreter& in, Value* result);
/// The same for the current frames, before an instruction that breaks. Also throws StopEarlier.
Assembly assemble_break(Interpreter& in);

}  // namespace stator::capture
