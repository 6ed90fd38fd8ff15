#pragma once

/// The PEP 523 hook, which gets frames before they are evaluated, and a way to make frames with it. C linkage, GIL held
/// throughout.

#include "capture/pycompat/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef PyObject* (*StatorFrameHook)(PyThreadState* tstate, StatorFrame* frame, int throwflag);

/// From the first acquire to the last release, every evaluation of a Python frame calls `hook`, on all threads. There
/// is one hook per process. -1 with an error in a subinterpreter. A hook turns Python calls into C recursion; therefore
/// frames nested deeper than kStatorMaxNested bypass the hook, until they return or acquire it again. A frame may also
/// bypass it because another tool installed its own hook on top, or because another thread is nested deeply. Callers
/// must not rely on seeing every frame.
int stator_hook_acquire(StatorFrameHook hook);
void stator_hook_release(void);
/// Whether the hook is the evaluator that is installed now.
bool stator_hook_is_current(void);
/// Whether another tool's evaluator is installed.
bool stator_has_foreign_evaluator(void);
enum { kStatorMaxNested = 100 };

/// Calls the evaluator that was installed before the hook.
PyObject* stator_eval_next(PyThreadState* tstate, StatorFrame* frame, int throwflag);

typedef PyObject* (*StatorFrameBody)(PyThreadState* tstate, StatorFrame* frame, void* data);
/// Makes a frame for the plain function `function` as a call does, and passes it to `body`, which fills it and ends it
/// as a hook callback does. Its argument slots hold placeholders. No user code runs before `body`, and no other hook
/// sees the frame. The frame's caller is the running frame, or the one that is linked.
PyObject* stator_call_with_frame(PyObject* function, StatorFrameBody body, void* data);

#ifdef __cplusplus
}

namespace stator::pycompat {

/// Acquires the hook for the duration of a scope. `ok()` is false, with an error set, if that failed.
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
