#pragma once

#include <span>

#include "capture/call/plan.h"

namespace stator::capture {

/// What the steps of one run of a plan share.
struct PlanRun {
  const CheckArray& guards;
  std::span<const int32_t> inputs;  // as Plan::inputs
  std::span<Ref> outputs;           // of the graph
  Ref* made;                        // by step
  /// The result of a step; null for -1.
  PyObject* at(int32_t step) const { return step < 0 ? nullptr : made[step].get(); }
};

using StepFn = Ref (*)(const Step& step, PlanRun& run);
/// By StepKind.
extern const StepFn kStepMakers[];

}  // namespace stator::capture
