#pragma once

/// The PEP 523 hook, by which frames are seen before they are evaluated, and frames made by way of it. C linkage, GIL
/// held throughout.

#include "capture/pycompat/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef PyObject* (*StatorFrameHook)(PyThreadState* tstate, StatorFrame* frame, int throwflag);

/// Every evaluation of a Python frame goes to `hook` from the first acquire to the last release, on all threads; one
/// hook per process. -1 with an error in a subinterpreter. What is evaluated deeper than kStatorHookDepth nested frames
/// goes past the hook until it returns or acquires again, since a hook turns Python calls into C recursion. A frame may
/// also go past it because another tool came on top or another thread stands deep: that must never matter.
int stator_hook_acquire(StatorFrameHook hook);
void stator_hook_release(void);
/// Whether evaluations of this moment reach the hook first.
bool stator_hook_is_current(void);
enum { kStatorHookDepth = 100 };

/// Whatever evaluator was installed below the hook.
PyObject* stator_eval_next(PyThreadState* tstate, StatorFrame* frame, int throwflag);

typedef PyObject* (*StatorFrameBody)(PyThreadState* tstate, StatorFrame* frame, void* data);
/// Makes a frame of the plain function `function` as a call would, and hands it to `body`, which fills it and ends it
/// as a hook callback does. The slots hold placeholders before. No user code runs before `body`, and no other hook sees
/// the frame. The frame's caller is the running frame, or the one that is linked.
PyObject* stator_call_with_frame(PyObject* function, StatorFrameBody body, void* data);

#ifdef __cplusplus
}

namespace stator::pycompat {

/// Holds the hook for the length of a scope. `ok()` is false, with an error set, if it could not be had.
class HookScope {
 public:
  explicit HookScope(StatorFrameHook hook) : ok_(stator_hook_acquire(hook) == 0) {}
  ~HookScope() {
    if (ok_) stator_hook_release();
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
  bool ok() const { return ok_; }

 private:
  bool ok_;
};

}  // namespace stator::pycompat
#endif
