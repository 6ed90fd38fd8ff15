// The stack of interpreted frames: which step an attempt can stop before, and what scopes restore.
#include "capture/interpreter/state/frame_stack.h"

#include <gtest/gtest.h>

#include <optional>

namespace stator::capture {
namespace {

/// A captured frame and two inlined calls, each executing one instruction: steps 1, 2 and 3.
struct Calls {
  Calls(Continuation of_middle, Continuation of_inner) {
    middle.caller = &outer;
    middle.continuation = of_middle;
    inner.caller = &middle;
    inner.continuation = of_inner;
    outer_scope.emplace(stack, outer);
    stack.next_step(outer);
    middle_scope.emplace(stack, middle);
    stack.next_step(middle);
    inner_scope.emplace(stack, inner);
    stack.next_step(inner);
  }
  ~Calls() {
    inner_scope.reset();
    middle_scope.reset();
    outer_scope.reset();
  }

  FrameStack stack;
  Frame outer, middle, inner;
  std::optional<FrameStack::Scope> outer_scope, middle_scope, inner_scope;
};

TEST(FrameStack, StopsAtTheInnermostInstructionIfEveryCallCanBeResumed) {
  Calls calls(Continuation::Push, Continuation::Discard);
  EXPECT_EQ(calls.stack.current(), &calls.inner);
  EXPECT_EQ(calls.stack.resumable_step(), 3u);
  EXPECT_EQ(calls.stack.outer_step(), 1u);
}

TEST(FrameStack, MovesOutOfCallsBelowCodeThatCannotBeResumed) {
  EXPECT_EQ(Calls(Continuation::Push, Continuation::Opaque).stack.resumable_step(), 2u);
  EXPECT_EQ(Calls(Continuation::Opaque, Continuation::Push).stack.resumable_step(), 1u);
  EXPECT_EQ(Calls(Continuation::Opaque, Continuation::Opaque).stack.resumable_step(), 1u);
}

TEST(FrameStack, MovesOutOfATransformToTheInstructionThatOpenedIt) {
  Calls calls(Continuation::Push, Continuation::Push);
  calls.stack.set_in_transform(true);
  // Opened by the innermost frame: it and its callers were entered outside of the transform.
  EXPECT_EQ(calls.stack.resumable_step(), 2u);
  Frame called;
  called.caller = &calls.inner;
  called.continuation = Continuation::Push;
  {
    FrameStack::Scope scope(calls.stack, called);
    EXPECT_TRUE(called.in_transform);
    calls.stack.next_step(called);
    EXPECT_EQ(calls.stack.resumable_step(), 2u);
  }
  calls.stack.set_in_transform(false);
  EXPECT_EQ(calls.stack.resumable_step(), 3u);
}

TEST(FrameStack, OpenedByTheCapturedFrameATransformIsLeftAtItsInstruction) {
  FrameStack stack;
  Frame outer;
  FrameStack::Scope scope(stack, outer);
  stack.next_step(outer);
  stack.set_in_transform(true);
  stack.next_step(outer);
  EXPECT_EQ(stack.resumable_step(), 1u);
}

TEST(FrameStack, RemembersWhereAnExceptionWasRaisedFirst) {
  Calls calls(Continuation::Push, Continuation::Opaque);
  NullValue raised, made;
  calls.stack.note_raise(&raised);
  calls.stack.next_step(calls.inner);
  calls.stack.next_step(calls.middle);
  calls.stack.note_raise(&raised);
  EXPECT_EQ(calls.stack.raise_step(&raised), 2u);
  EXPECT_EQ(calls.stack.raise_step(&made), 0u);
}

TEST(FrameStack, KnowsWhetherAFrameHadAHandler) {
  pycompat::Code plain, with_block, handling;
  pycompat::Instr exit;
  exit.op = pycompat::Op::WITH_EXCEPT_START;
  with_block.instrs = {exit};
  with_block.exceptions = {pycompat::ExceptionEntry{}};
  handling.instrs = {pycompat::Instr{}};
  handling.exceptions = {pycompat::ExceptionEntry{}};
  FrameStack stack;
  for (const pycompat::Code* code : {&plain, &with_block, &handling}) {
    EXPECT_FALSE(stack.has_seen_handlers());
    Frame frame;
    frame.code = code;
    FrameStack::Scope scope(stack, frame);
  }
  EXPECT_TRUE(stack.has_seen_handlers());
}

TEST(FrameStack, ScopesRestoreTheFrameBefore) {
  FrameStack stack;
  EXPECT_EQ(stack.current(), nullptr);
  Frame outer, inner;
  FrameStack::Scope scope(stack, outer);
  try {
    FrameStack::Scope called(stack, inner);
    EXPECT_EQ(stack.current(), &inner);
    throw Raise{nullptr};
  } catch (const Raise&) {
  }
  EXPECT_EQ(stack.current(), &outer);
}

TEST(FrameStack, NestingIsBounded) {
  FrameStack stack;
  std::vector<Frame> frames(FrameStack::kMaxNestedCalls + 1);
  std::vector<std::unique_ptr<FrameStack::Scope>> scopes;
  for (int i = 0; i < FrameStack::kMaxNestedCalls; ++i)
    scopes.push_back(std::make_unique<FrameStack::Scope>(stack, frames[i]));
  EXPECT_THROW(FrameStack::Scope(stack, frames.back()), Break);
  EXPECT_EQ(stack.current(), &frames[FrameStack::kMaxNestedCalls - 1]);
  scopes.pop_back();
  EXPECT_NO_THROW(FrameStack::Scope(stack, frames.back()));
  while (!scopes.empty()) scopes.pop_back();
}

}  // namespace
}  // namespace stator::capture
