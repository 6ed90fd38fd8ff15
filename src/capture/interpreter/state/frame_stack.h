#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "capture/call/break.h"
#include "capture/interpreter/state/frame.h"

namespace stator::capture {

/// Whether the entry is that of a handler. A `with` block does not count: as a rule it passes the exception on.
bool is_handler(const pycompat::Code& code, const pycompat::ExceptionEntry& entry);

/// The frames that the capture interprets, and the numbering of their instructions.
///
/// Invariant: following `caller` from `current()` leads to the captured frame, which has no caller. Steps only grow,
/// and no frame's step is smaller than its caller's. A repeated attempt reaches the same frames at the same step.
class FrameStack {
 public:
  static constexpr int kMaxNestedCalls = 180;

  /// The innermost frame; null before the capture begins and after it has ended.
  Frame* current() const { return current_; }

  /// Makes a frame the current one for the duration of a scope. Throws Break{recursion} if calls are nested too deeply.
  class Scope {
   public:
    Scope(FrameStack& stack, Frame& frame) : stack_(stack), before_(stack.current_) { stack.enter(frame); }
    ~Scope() {
      stack_.current_ = before_;
      --stack_.nested_calls_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FrameStack& stack_;
    Frame* before_;
  };

  /// Numbers the instruction that the frame executes next.
  uint64_t next_step(Frame& frame) { return frame.step = ++steps_; }
  /// The number of the last instruction; the pointer is valid as long as this object.
  const uint64_t* steps() const { return &steps_; }
  /// The step of the outermost frame's instruction.
  uint64_t outer_step() const;
  /// The step to stop before so that every frame on the stack, now and at that step, can be resumed. If C code runs
  /// between two frames, it is the step of the instruction that called the C code; inside a transform, that of the
  /// instruction of the outermost frame that opened it.
  uint64_t resumable_step() const;

  /// Stores the step that raised an exception of the program, the first time that it is seen.
  void note_raise(Value* exception) { raise_steps_.try_emplace(exception, resumable_step()); }
  /// That step, adjusted so that an attempt can stop before it; 0: the exception was made but not raised.
  uint64_t raise_step(Value* exception) const;

  /// Whether the program has opened a transform of `torch.func` or a level of forward-mode AD. It is really open,
  /// around fakes; a break inside moves out to before the first one was opened.
  bool in_transform() const { return in_transform_; }
  void set_in_transform(bool open);

  /// Whether a frame that was entered has a handler of exceptions somewhere.
  bool has_seen_handlers() const { return has_seen_handlers_; }

  /// The line that the current frame executes; empty if there is no frame.
  UserLine user_line() const;
  /// The lines of all frames, outermost first.
  std::vector<StackLine> lines() const;

 private:
  void enter(Frame& frame);

  Frame* current_ = nullptr;
  int nested_calls_ = 0;
  uint64_t steps_ = 0;
  bool has_seen_handlers_ = false;
  bool in_transform_ = false;
  uint64_t transform_opened_at_ = 0;  // the step of the outermost frame when it was opened
  std::unordered_map<Value*, uint64_t> raise_steps_;
};

}  // namespace stator::capture
