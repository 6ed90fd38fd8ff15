// What a frame held when its capture began.
#include "capture/interpreter/state/start_frame.h"

#include <gtest/gtest.h>

#include "capture/pycompat/code.h"
#include "python.h"

namespace stator::capture {
namespace {

class StartFrameTest : public ::testing::Test {
 protected:
  testing::Python python;
  Ref function = python("lambda a, *rest, key=1, **others: [a for local in rest]");
  Ref item = python("object()");
  // `a`, `rest`, `key`, `others`, then what the code has besides, and one value on the stack.
  std::vector<PyObject*> values = std::vector<PyObject*>(32);

  Start start_at(int32_t offset, int32_t depth) {
    return {.function = function.get(), .offset = offset, .values = values.data(), .stack_depth = depth};
  }
  size_t slots() const {
    return pycompat::decode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())))->nlocalsplus;
  }
};

TEST_F(StartFrameTest, AtTheStartItHoldsTheArguments) {
  values[0] = values[2] = item.get();
  values[1] = values[3] = Py_None;
  StartFrame frame(start_at(0, 0));
  EXPECT_FALSE(frame.is_resumed());
  ASSERT_EQ(frame.values().size(), 4u);
  EXPECT_TRUE(frame.bound_places().empty()) << "arguments are always bound";
}

TEST_F(StartFrameTest, KeepsWhatTheFrameHeldAlive) {
  values[0] = item.get();
  values[1] = values[2] = values[3] = Py_None;
  const Py_ssize_t before = Py_REFCNT(item.get());
  {
    StartFrame frame(start_at(0, 0));
    EXPECT_EQ(Py_REFCNT(item.get()), before + 1);
  }
  EXPECT_EQ(Py_REFCNT(item.get()), before);
}

TEST_F(StartFrameTest, WhichSlotsAreBoundMattersOnlyWhereTheyWereLookedAt) {
  values[0] = item.get();
  values[slots()] = item.get();
  StartFrame frame(start_at(4, 1));
  EXPECT_TRUE(frame.is_resumed());
  ASSERT_EQ(frame.values().size(), slots() + 1);
  auto places = frame.bound_places();
  ASSERT_EQ(places.size(), 1u) << "the stack only";
  EXPECT_EQ(places[0].index, static_cast<int32_t>(slots()));
  EXPECT_TRUE(places[0].bound);
  frame.note_looked_at(0);
  frame.note_looked_at(1);
  places = frame.bound_places();
  ASSERT_EQ(places.size(), 3u);
  EXPECT_TRUE(places[0].bound);
  EXPECT_FALSE(places[1].bound);
}

TEST_F(StartFrameTest, SourcesThatVaryAreNotSpecialisedOn) {
  values[0] = item.get();
  values[1] = values[2] = values[3] = Py_None;
  SourceTree sources;
  Source *first = sources.argument(0, item.get()), *second = sources.argument(1, Py_None);
  const Ref number = Ref::steal(PyFloat_FromDouble(0.5));
  Source* third = sources.argument(2, number.get());
  Varying varying;
  varying.values = {first->describe()};
  varying.floats = {second->describe(), third->describe()};
  Start start = start_at(0, 0);
  EXPECT_FALSE(StartFrame(start).is_varying(first));
  start.varying = &varying;
  StartFrame frame(start);
  EXPECT_TRUE(frame.is_varying(first));
  EXPECT_THROW(frame.refuse_varying(first), Break);
  EXPECT_FALSE(frame.is_varying(second));  // no float is there
  EXPECT_TRUE(frame.is_varying(third));
  EXPECT_NO_THROW(frame.refuse_varying(second));
}

}  // namespace
}  // namespace stator::capture
