// What a capture tells the tracer, and what it learns from it.
#include "capture/interpreter/state/torch_session.h"

#include <gtest/gtest.h>

#include "capture/interpreter/state/known_types.h"
#include "core/graph/graph.h"
#include "running_frames.h"

namespace stator::capture {
namespace {

class TorchSessionTest : public ::testing::Test {
 protected:
  testing::Python python;
  RunningFrames running;
  TorchSession torch{"program", running.stack};
  Ref real = python("torch.ones(3)");
  Ref fake = torch.tracer.add_input(real.get(), "x");

  /// Records one operator at the line that runs.
  Ref record(PyObject* argument) {
    torch.locate();
    return torch.tracer.record([&] { return PyObject_CallOneArg(known_object("torch.sin"), argument); });
  }
};

TEST_F(TorchSessionTest, NodesHaveTheLinesOfTheFramesThatRun) {
  Ref first = record(fake.get());
  ASSERT_TRUE(first);
  running.inner.line = 21;
  Ref second = record(first.get());
  running.leave_inner();
  Ref third = record(second.get());
  std::vector<uint32_t> kept;
  auto graph = torch.tracer.finish({third.get()}, kept);
  ASSERT_EQ(graph->nodes.size(), 3u);
  auto lines_of = [&](size_t node) {
    std::vector<int> lines;
    for (const auto& location : graph->call_chain(graph->nodes[node].location)) lines.push_back(location.line);
    return lines;
  };
  EXPECT_EQ(lines_of(0), (std::vector<int>{10, 20}));
  EXPECT_EQ(lines_of(1), (std::vector<int>{10, 21}));
  EXPECT_EQ(lines_of(2), (std::vector<int>{10}));
}

TEST_F(TorchSessionTest, KnowsTheStepThatRecordedANode) {
  Ref first = record(fake.get());
  running.stack.next_step(running.inner);
  Ref second = record(first.get()), third = record(second.get());
  EXPECT_EQ(torch.step_of_node(0), 2u);
  EXPECT_EQ(torch.step_of_node(1), 3u);
  EXPECT_EQ(torch.step_of_node(2), 3u);
}

TEST_F(TorchSessionTest, AFailureOfTheTracerIsABreak) {
  Ref wrong = torch.tracer.record([&] { return PyObject_CallOneArg(known_object("torch.sin"), Py_None); });
  ASSERT_FALSE(wrong);
  try {
    torch.fail("sin");
    ADD_FAILURE();
  } catch (const Break& found) {
    EXPECT_EQ(found.id, BreakId::torch_error);
    EXPECT_EQ(found.detail.find("sin: "), 0u) << found.detail;
  }
  PyErr_Clear();
}

TEST_F(TorchSessionTest, SeesThatATransformIsOpen) {
  EXPECT_FALSE(running.stack.in_transform());
  python.run("torch._C._functorch._grad_increment_nesting()");
  torch.refresh_transform_state();
  EXPECT_TRUE(running.stack.in_transform());
  python.run("torch._C._functorch._grad_decrement_nesting()");
  torch.refresh_transform_state();
  EXPECT_FALSE(running.stack.in_transform());
}

TEST_F(TorchSessionTest, OtherFailuresOfACallWithNumbersAreNotTriedAgain) {
  int calls = 0;
  auto call = [&]() -> Value* {
    ++calls;
    EXPECT_FALSE(torch.scope.gives_numbers_as_tensors);
    throw Break{BreakId::torch_error, "another reason"};
  };
  EXPECT_THROW(torch.with_numbers(call), Break);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace stator::capture
