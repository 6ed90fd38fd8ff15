// Where a break or an exception ended an attempt.
#include "capture/interpreter/state/end_report.h"

#include <gtest/gtest.h>

#include "running_frames.h"

namespace stator::capture {
namespace {

TEST(EndReport, DescribesTheFramesOfABreak) {
  RunningFrames running;
  auto* const allowed = running.code();
  EndReport report;
  EXPECT_FALSE(report.is_final());
  report.note_break(running.stack, true, allowed);
  EXPECT_TRUE(report.is_final());
  EXPECT_TRUE(report.is_error);
  EXPECT_EQ(report.allowed, allowed);
  EXPECT_EQ(report.step, 2u);
  EXPECT_EQ(report.outer_step, 1u);
  ASSERT_EQ(report.stack.size(), 2u);
  EXPECT_EQ(report.stack[0].line, 10);
  EXPECT_EQ(report.stack[1].line, 20);
}

TEST(EndReport, AnExceptionIsReportedWhereItWasRaised) {
  RunningFrames running;
  NullValue first, second;
  EndReport report;
  report.note_raise(running.stack, &first);
  EXPECT_EQ(report.stack.size(), 2u);
  running.leave_inner();
  // The same exception leaves the outer frame, too.
  report.note_raise(running.stack, &first);
  EXPECT_EQ(report.stack.size(), 2u);
  EXPECT_EQ(report.step, 2u);
  report.note_raise(running.stack, &second);
  EXPECT_EQ(report.stack.size(), 1u);
  EXPECT_EQ(report.step, 1u);
  EXPECT_FALSE(report.is_final());
}

TEST(EndReport, WhereNothingCanBeResumedThereIsNoStep) {
  RunningFrames running;
  EndReport report;
  report.note_break(running.stack, false, nullptr);
  report.note_hopeless(running.stack);
  EXPECT_EQ(report.step, 0u);
  EXPECT_EQ(report.outer_step, 0u);
  EXPECT_EQ(report.stack.size(), 2u);
  EXPECT_TRUE(report.is_final());
}

}  // namespace
}  // namespace stator::capture
