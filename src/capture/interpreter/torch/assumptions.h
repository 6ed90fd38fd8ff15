#pragma once

#include <optional>

#include "capture/interpreter/protocol/interpreter.h"

/// Assumptions: conditions on a tensor's data that the capture takes to be true, and that the graph verifies in each
/// run. Where one fails, the program itself runs. Made only where the attempt's options allow it.
///
/// They serve branches of which one side does nothing but raise (a check of arguments, an `assert`): the capture
/// continues on the other side, and the graph fails where the program would raise.
namespace stator::capture {

/// Assumes that a tensor or symbolic number has this truth, and records the operator that verifies it. False if that
/// is not possible.
bool assume(Interpreter& in, Value* value, bool truth);
/// The truth that was assumed before for an equal symbolic expression; empty: none.
std::optional<bool> earlier_assumed(const Interpreter& in, Value* value);

/// The truth that a jump on `value` may assume, recorded; empty if both sides of the jump raise, or neither. The
/// frame's next instruction is the one after the jump; `on_jump` is the truth that jumps.
std::optional<bool> assumed_truth(Interpreter& in, const Frame& frame, Value* value, const pycompat::Instr& jump,
                                  bool on_jump);

}  // namespace stator::capture
