#pragma once

#include <optional>

#include "capture/interpreter/interpreter.h"

/// Branches on a tensor's data of which one arm only raises: the capture takes the other one, and the graph gets an
/// operator that fails where the program would raise. Then the program itself runs, and raises.
namespace stator::capture {

/// Whether the graph of this thread's capture may fail without having changed anything.
class AssumptionScope {
 public:
  explicit AssumptionScope(bool allowed);
  ~AssumptionScope();
  AssumptionScope(const AssumptionScope&) = delete;
  AssumptionScope& operator=(const AssumptionScope&) = delete;

 private:
  bool outer_;
};

/// So that a number that depends on data may turn out to be one that the graph cannot compute.
bool numbers_may_fail();

/// Takes the truth of a tensor or number for granted, and records that the graph fails where it is another; false
/// where that cannot be.
bool assume(Interpreter& in, Value* value, bool truth);
/// What was taken for granted of an equal number.
std::optional<bool> earlier_assumed(const Interpreter& in, Value* value);

/// The truth that a jump on it may take for granted, recorded; empty where neither or each arm raises. The frame's next
/// instruction is the one after the jump; `on_jump`: the truth that jumps.
std::optional<bool> assumed_truth(Interpreter& in, const Frame& frame, Value* value, const pycompat::Instr& jump,
                                  bool on_jump);

}  // namespace stator::capture
