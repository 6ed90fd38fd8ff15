#pragma once

#include <span>

#include "capture/call/plan.h"

namespace stator::capture {

/// What the steps of one run of a plan share.
struct PlanRun {
  const CheckArray& guards;  // its slots are those of this run only until the graph runs: other calls may use them then
  std::span<PyObject* const> inputs;  // of the graph; to be compared only
  std::span<Ref> outputs;             // of the graph
  Ref* made;                          // by step
  /// The result of a step; null for -1.
  PyObject* at(int32_t step) const { return step < 0 ? nullptr : made[step].get(); }
};

using StepFn = Ref (*)(const Step& step, PlanRun& run);
/// By StepKind.
extern const StepFn kStepMakers[];

}  // namespace stator::capture
