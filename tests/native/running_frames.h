#pragma once

#include <optional>

#include "capture/interpreter/state/frame_stack.h"
#include "capture/pycompat/code.h"
#include "python.h"

namespace stator::capture {

/// A captured frame at line 10, and a call inlined in it at line 20 that can be resumed: steps 1 and 2.
class RunningFrames {
 public:
  RunningFrames() {
    function_ = python_("lambda self, x=None: (self, x)");
    for (Frame* frame : {&outer, &inner}) {
      frame->code = pycompat::decode(code());
      frame->locals.resize(2);
    }
    outer.line = 10;
    inner.line = 20;
    inner.caller = &outer;
    inner.continuation = Continuation::Push;
    outer_scope_.emplace(stack, outer);
    stack.next_step(outer);
    inner_scope_.emplace(stack, inner);
    stack.next_step(inner);
  }
  ~RunningFrames() {
    inner_scope_.reset();
    outer_scope_.reset();
  }

  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function_.get())); }
  PyObject* function() const { return function_.get(); }
  void leave_inner() { inner_scope_.reset(); }

  FrameStack stack;
  Frame outer, inner;

 private:
  testing::Python python_;
  Ref function_;
  std::optional<FrameStack::Scope> outer_scope_, inner_scope_;
};

}  // namespace stator::capture
