#pragma once

#include <cstdint>
#include <vector>

#include "capture/call/break.h"
#include "capture/interpreter/state/frame_stack.h"

namespace stator::capture {

/// Where a break, or an exception that left the captured frame, ended an attempt.
///
/// Invariant: it describes the innermost place of the last such event. It is filled while the frames still exist; what
/// a break reported stays, even if another exception is thrown while the frames are left.
struct EndReport {
  std::vector<StackLine> stack;  // outermost first
  /// The step to stop before in another attempt, so that every frame can be rebuilt there. 0: there is none.
  uint64_t step = 0;
  /// The step of the outermost frame's instruction at that time: stopping there needs no inlined frame.
  uint64_t outer_step = 0;
  /// The innermost function allowed in graphs that was running; null: none. Borrowed.
  PyCodeObject* allowed = nullptr;
  /// The function in whose body it happened was compiled to raise an error at a graph break.
  bool is_error = false;
  /// A function in `AttemptOptions::as_nodes` could not be called by a node.
  bool node_failed = false;

  /// Called when an exception of the program leaves the current frame, for each frame that it leaves.
  void note_raise(const FrameStack& frames, const Value* exception) {
    if (exception != raised_) note(frames, false);
    raised_ = exception;
  }
  /// Called when a break leaves the innermost frame. `error` and `allowed_code` are stored in the fields of these
  /// names.
  void note_break(const FrameStack& frames, bool error, PyCodeObject* allowed_code) {
    note(frames, error);
    allowed = allowed_code;
    is_final_ = true;
  }
  /// Another attempt would gain nothing: CPython runs the entire frame.
  void note_hopeless(const FrameStack& frames) {
    stack = frames.lines();
    step = outer_step = 0;
    is_final_ = true;
  }
  /// Keeps the report that exists.
  void finish() { is_final_ = true; }
  bool is_final() const { return is_final_; }

 private:
  void note(const FrameStack& frames, bool error) {
    stack = frames.lines();
    is_error = error;
    step = frames.resumable_step();
    outer_step = frames.outer_step();
  }

  bool is_final_ = false;
  const Value* raised_ = nullptr;  // the exception that was reported last
};

}  // namespace stator::capture
