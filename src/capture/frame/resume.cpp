#include "capture/frame/resume.h"

#include "capture/frame/resumption.h"
#include "capture/frame/watch.h"
#include "core/observe/profile.h"

namespace stator::capture {
namespace {

/// What `run_body` needs. `stator_call_with_frame` passes a pointer to it through C.
struct FrameStateCall {
  Compiler& compiler;
  const Plan& plan;
  std::vector<Ref>& made;
  size_t index;
};

PyObject* run_body(PyThreadState* tstate, StatorFrame* frame, void* data) {
  auto* call = static_cast<FrameStateCall*>(data);
  return Resumption(call->compiler, tstate, frame).run_frame_states(call->plan, call->made, call->index);
}

}  // namespace

PyObject* call_frame_state(Compiler& compiler, PyObject* function, const Plan& plan, std::vector<Ref>& made,
                           size_t index) {
  FrameStateCall call{compiler, plan, made, index};
  if (Py_EnterRecursiveCall(" in a compiled function")) return nullptr;
  PyObject* result = stator_call_with_frame(function, run_body, &call);
  Py_LeaveRecursiveCall();
  return result;
}

bool run_plan(const Entry& entry, PlanResult& ended) {
  NoWatch no_watch;
  observe::ProfiledRange range([&] { return entry.label(); });
  return entry.plan->run(*entry.guards, ended);
}

PyObject* resume_frames(Compiler& compiler, PyObject* function, const Plan& plan, PlanResult ended) {
  return call_frame_state(compiler, function, plan, ended.made, 0);
}

PyObject* run_real_frame(Compiler& compiler, PyThreadState* tstate, StatorFrame* frame) {
  return Resumption(compiler, tstate, frame).run();
}

}  // namespace stator::capture
