#pragma once

#include "capture/frame/compiler.h"
#include "capture/pycompat/frame.h"

/// Resuming frames after a graph break: the plan's frame states are put into real frames, the instruction that broke
/// runs for real, and the frame's next place is looked up like any other call.
namespace stator::capture {

/// Runs the plan of an entry whose guards just held. Frames that it starts are not captured; profilers see a range with
/// the entry's label. False with a Python error set.
bool run_plan(const Entry& entry, PlanResult& ended);

/// Resumes the frames that `plan` left, the first of which is made for `function`. New reference to the result of the
/// outermost frame, or null with a Python error set.
PyObject* resume_frames(Compiler& compiler, PyObject* function, const Plan& plan, PlanResult ended);

/// Runs a frame from its current offset to its end, by entries where there are some. Ends the frame as a hook must. New
/// reference to its result, or null with a Python error set.
PyObject* run_real_frame(Compiler& compiler, PyThreadState* tstate, StatorFrame* frame);

}  // namespace stator::capture
